"""Claims and volumes: what is bound to what, and when a volume is made."""

from __future__ import annotations

from typing import Any

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import CLAIM, POD, VOLUME
from policy_sched.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.binding import claim_patch, volume_patch
from tests.embedded.world import Plain, World, pod


def claim(name: str = "data", storage_class: str | None = "fast", **spec: Any) -> Plain:
    """Return a claim of 2Gi."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    if storage_class is not None:
        wanted["storageClassName"] = storage_class  # type: ignore[assignment]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**wanted, **spec},
    }


def volume(name: str, size: str = "2Gi", **spec: Any) -> Plain:
    """Return a volume of class fast."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, **common, **spec},
    }


def storage_class(mode: str = "Immediate", provisioner: str = "csi.example", **meta: Any) -> Plain:
    """Return the class fast."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", **meta},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def bound(world: World, name: str = "data") -> tuple[str, str]:
    """Return a claim's phase and volume."""
    typed = world.store.get(CLAIM, "default", name).typed
    assert isinstance(typed, PersistentVolumeClaim)
    return typed.status.phase, typed.spec.volume_name


def test_a_claim_takes_the_smallest_volume_that_will_do() -> None:
    """Class, size, modes and selector decide; both say that they are bound."""
    world = World()
    for name, size in (("small", "1Gi"), ("large", "9Gi"), ("right", "3Gi")):
        world.cluster.apply(volume(name, size))
    world.cluster.apply(volume("other", storageClassName="slow"))
    world.cluster.apply(volume("mode", accessModes=["ReadOnlyMany"]))
    world.cluster.apply(claim())
    world.run(0)
    assert bound(world) == ("Bound", "right")
    data = world.store.get(VOLUME, "", "right").data
    assert (data["status"]["phase"], data["spec"]["claimRef"]["name"]) == ("Bound", "data")
    got = world.store.get(CLAIM, "default", "data").data["status"]
    assert (got["capacity"], got["accessModes"]) == ({"storage": "3Gi"}, ["ReadWriteOnce"])
    world.cluster.apply(claim("second"))
    world.run(0)
    assert bound(world, "second") == ("Bound", "large")


def test_a_volume_is_made_where_none_is_there() -> None:
    """If the class has a provisioner; the claim waits if it has none."""
    world = World()
    world.cluster.apply(storage_class(provisioner="kubernetes.io/no-provisioner"))
    world.cluster.apply(claim())
    world.run(0)
    assert bound(world) == ("Pending", "")
    world.cluster.apply(storage_class())
    world.run(0)
    phase, name = bound(world)
    made = world.store.get(VOLUME, "", name).typed
    assert isinstance(made, PersistentVolume)
    assert (phase, made.status.phase) == ("Bound", "Bound")
    assert made.spec.capacity == {"storage": "2Gi"}


def test_a_class_may_wait_for_the_scheduler() -> None:
    """A volume is made once a node was named."""
    world = World()
    world.cluster.apply(storage_class("WaitForFirstConsumer"))
    world.cluster.apply(claim())
    world.cluster.apply(volume("free"))
    world.run(5)
    assert bound(world) == ("Pending", "")
    wanted = world.store.get(CLAIM, "default", "data").typed
    assert isinstance(wanted, PersistentVolumeClaim)
    wanted.metadata.annotations["volume.kubernetes.io/selected-node"] = "n0"
    world.client.send(claim_patch(wanted))
    world.run(0)
    phase, name = bound(world)
    assert phase == "Bound"
    assert name.startswith("pvc-")


def test_a_volume_that_the_scheduler_keeps_for_a_claim_is_bound_to_it() -> None:
    """What stands in the volume besides stays."""
    world = World()
    world.cluster.apply(storage_class("WaitForFirstConsumer"))
    world.cluster.apply(claim())
    world.cluster.apply(volume("local", hostPath={"path": "/disk"}))
    kept = world.store.get(VOLUME, "", "local").typed
    assert isinstance(kept, PersistentVolume)
    uid = world.store.get(CLAIM, "default", "data").uid
    kept.spec.claim_ref = ClaimReference("default", "data", uid)
    world.client.send(volume_patch(kept))
    world.run(0)
    assert bound(world) == ("Bound", "local")
    data = world.store.get(VOLUME, "", "local").data
    assert data["spec"]["hostPath"] == {"path": "/disk"}


def test_a_claim_of_no_class_gets_the_default_one() -> None:
    """The class that says so of itself."""
    world = World()
    world.cluster.apply(claim(storage_class=None))
    world.run(0)
    assert bound(world) == ("Pending", "")
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    world.cluster.apply(storage_class(annotations=default))
    world.run(0)
    assert bound(world)[0] == "Bound"


def test_the_reclaim_policy_decides_about_released_volumes() -> None:
    """It is released, or deleted if that is its policy."""
    world = World()
    for name, policy in (("a", "Retain"), ("b", "Delete")):
        world.cluster.apply(volume(name, persistentVolumeReclaimPolicy=policy))
        world.cluster.apply(claim(name))
        world.run(0)
        world.cluster.delete(Key(CLAIM, "default", name))
        world.run(0)
    (left,) = world.store.select(VOLUME)
    assert (left.name, left.data["status"]["phase"]) == ("a", "Released")


def test_ephemeral_volumes_have_claims_that_go_with_the_pod() -> None:
    """Named after pod and volume."""
    world = World(stop=0)
    world.cluster.apply(storage_class())
    template = {"spec": claim()["spec"]}
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    world.cluster.apply(pod("p", volumes=volumes))
    world.run(2)
    assert bound(world, "p-tmp")[0] == "Bound"
    world.delete(POD, "p")
    world.run(2)
    assert world.store.select(CLAIM) == []
