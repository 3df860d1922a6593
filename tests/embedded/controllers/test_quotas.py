"""Resource quotas: what is used is counted and shown; nothing is refused."""

from __future__ import annotations

from typing import Any

from policy_sched.client.apimachinery.resources import POD, QUOTA
from tests.embedded.world import Plain, World, pod


def quota(world: World, name: str = "q", scopes: Any = None, **hard: str) -> None:
    """Create a quota; two underscores in a name stand for a slash, one for a dot."""
    named = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    spec: Plain = {"hard": named, **({"scopes": scopes} if scopes else {})}
    data = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}
    world.store.create(data)


def used(world: World, name: str = "q") -> Plain:
    """Return what is used."""
    found: Plain = world.store.get(QUOTA, "default", name).data["status"]["used"]
    return found


def test_what_pods_ask_for_is_counted() -> None:
    """As often as it changes; what is over the quota is there all the same."""
    world = World()
    quota(world, pods="1", cpu="100m", requests_memory="1Gi", limits_cpu="1", count__pods="5")
    world.run(1)
    assert used(world) == {
        "pods": "0", "cpu": "0", "requests.memory": "0", "limits.cpu": "0", "count/pods": "0",
    }  # fmt: skip
    for name in ("a", "b"):
        data = pod(name, "250m")
        amounts = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1"}}
        data["spec"]["containers"][0]["resources"] = amounts
        world.store.create(data)
    world.run(2)
    assert used(world) == {
        "pods": "2", "cpu": "500m", "requests.memory": "1Gi", "limits.cpu": "2", "count/pods": "2",
    }  # fmt: skip
    assert world.store.get(QUOTA, "default", "q").data["status"]["hard"]["pods"] == "1"
    world.fail("a")
    world.run(2)
    assert used(world)["pods"] == "1"
    assert used(world)["count/pods"] == "2"
    world.delete(POD, "b")
    world.run(40)
    assert used(world)["cpu"] == "0"
    assert world.cluster.next_wakeup() is None


def test_objects_and_storage_are_counted() -> None:
    """By their resources' names."""
    world = World()
    quota(world, configmaps="3", requests_storage="5Gi", count__deployments_apps="1", x_y__z="1")
    meta = {"namespace": "default"}
    world.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "c"}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    world.store.create({**claim, "metadata": {**meta, "name": "v"}})
    world.run(2)
    assert used(world) == {
        "configmaps": "1", "requests.storage": "2Gi", "count/deployments.apps": "0", "x.y/z": "0",
    }  # fmt: skip


def test_scopes_say_which_pods_count() -> None:
    """Those without any request, those that end, those of a class."""
    world = World()
    for name in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating"):
        quota(world, name.lower(), [name], pods="9")
    world.store.create(pod("asks", activeDeadlineSeconds=60))
    free = pod("free")
    free["spec"]["containers"][0]["resources"] = {}
    world.store.create(free)
    world.run(2)
    counts = [used(world, one.name)["pods"] for one in world.store.select(QUOTA)]
    assert counts == ["1"] * 4
    selected = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "DoesNotExist"},
    ]}}  # fmt: skip
    world.store.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "c"}, "spec": selected}
    )
    world.run(2)
    assert used(world, "c") == {"pods": "2"}
