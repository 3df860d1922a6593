"""Stateful sets: order, numbers and claims of their pods."""

from __future__ import annotations

from policy_sched.client.apimachinery.resources import CLAIM, POD, STATEFUL_SET
from tests.embedded.world import Plain, World, pod_spec, workload


def stateful(replicas: int = 3, image: str = "app:1", **spec: object) -> Plain:
    """Return a stateful set."""
    template = pod_spec()
    template["containers"][0]["image"] = image
    return workload("StatefulSet", "db", template=template, replicas=replicas, **spec)


def images(world: World) -> list[str]:
    """Return the pods' images, by name."""
    return [pod.data["spec"]["containers"][0]["image"] for pod in world.pods()]


def test_pods_are_created_in_order() -> None:
    """The next one is made when the one before it is ready."""
    world = World()
    world.cluster.apply(stateful())
    for count in (1, 2, 3, 3):
        world.run(0.5)
        assert world.names() == [f"db-{n}" for n in range(count)]
        world.run(0.5)
    assert world.phases() == ["Running"] * 3
    assert world.status(STATEFUL_SET, "db")["readyReplicas"] == 3
    labels = world.pods()[1].labels
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert world.cluster.next_wakeup() is None


def test_parallel_pods_are_created_at_once() -> None:
    """podManagementPolicy Parallel."""
    world = World()
    world.cluster.apply(stateful(podManagementPolicy="Parallel", ordinals={"start": 5}))
    world.run(1)
    assert world.names() == ["db-5", "db-6", "db-7"]
    assert world.phases() == ["Running"] * 3


def test_a_deleted_pod_is_recreated_under_its_name() -> None:
    """There are never two of one name; a failed one is deleted and made again."""
    world = World()
    world.cluster.apply(stateful(2))
    world.run(3)
    old = world.pods()[0].uid
    world.delete(POD, "db-0")
    world.run(29)
    assert world.pods()[0].deleting
    world.run(2)
    assert world.pods()[0].uid != old
    world.fail("db-1")
    world.run(2)
    assert world.phases() == ["Running", "Running"]


def test_the_last_pods_go_first_one_at_a_time() -> None:
    """When the count is lowered."""
    world = World()
    world.cluster.apply(stateful(3))
    world.run(4)
    world.cluster.apply(stateful(1))
    world.run(10)
    assert [pod.name for pod in world.pods() if pod.deleting] == ["db-2"]
    world.run(30)
    assert [pod.name for pod in world.pods() if pod.deleting] == ["db-1"]
    world.run(30)
    assert world.names() == ["db-0"]


def test_a_changed_template_replaces_pods_down_to_the_partition() -> None:
    """One at a time; those below the partition stay."""
    world = World(stop=0)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    world.cluster.apply(stateful(3))
    world.run(4)
    world.cluster.apply(stateful(3, "app:2", updateStrategy=strategy))
    for _ in range(10):
        world.run(0.5)
        assert world.status(STATEFUL_SET, "db")["readyReplicas"] >= 2
    assert images(world) == ["app:1", "app:2", "app:2"]
    world.cluster.apply(stateful(3, "app:3", updateStrategy={"type": "OnDelete"}))
    world.run(10)
    assert images(world) == ["app:1", "app:2", "app:2"]


def test_each_pod_has_claims_that_outlive_it() -> None:
    """Made once, found again, kept when the set is scaled down."""
    world = World(stop=0)
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
    world.cluster.apply(stateful(2, volumeClaimTemplates=[claim]))
    world.run(3)
    claims = world.store.select(CLAIM)
    assert [item.name for item in claims] == ["data-db-0", "data-db-1"]
    assert world.pod("db-1").spec.volumes[0].persistent_volume_claim is not None
    world.cluster.apply(stateful(1, volumeClaimTemplates=[claim]))
    world.run(3)
    assert world.names() == ["db-0"]
    assert [item.uid for item in world.store.select(CLAIM)] == [item.uid for item in claims]
