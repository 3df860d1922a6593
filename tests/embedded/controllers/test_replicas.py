"""Deployments and replica sets: how many pods there are, and of which template."""

from __future__ import annotations

from policy_sched.client.apimachinery.object import Key, Stored
from policy_sched.client.apimachinery.resources import DEPLOYMENT, POD, REPLICA_SET
from policy_sched.embedded.controllers.replica_sets import BURST
from policy_sched.embedded.store.deletion import DeleteOptions
from tests.embedded.world import Plain, World, pod_spec, workload


def deployed(replicas: int = 4, image: str = "app:1", **spec: object) -> Plain:
    """Return a deployment."""
    template = pod_spec()
    template["containers"][0]["image"] = image
    return workload("Deployment", template=template, replicas=replicas, **spec)


def images(world: World) -> list[str]:
    """Return the images of the pods that are to stay, sorted."""
    return sorted(
        pod.data["spec"]["containers"][0]["image"] for pod in world.pods() if not pod.deleting
    )


def test_a_deployment_gets_its_pods() -> None:
    """Through a replica set; all of them run, and the status says so."""
    world = World()
    world.cluster.apply(deployed())
    world.run(2)
    assert world.phases() == ["Running"] * 4
    (owner,) = world.pods()[0].typed.metadata.owner_references
    assert (owner.kind, owner.controller) == ("ReplicaSet", True)
    counts = {"replicas": 4, "readyReplicas": 4, "availableReplicas": 4}
    assert counts.items() <= world.status(DEPLOYMENT).items()
    assert counts.items() <= world.status(REPLICA_SET, owner.name).items()
    assert world.cluster.next_wakeup() is None


def test_a_deleted_pod_is_replaced_at_once() -> None:
    """The new one is there while the old one still ends."""
    world = World()
    world.cluster.apply(deployed())
    world.run(2)
    world.delete(POD, world.names()[0])
    world.run(0)
    assert [pod.deleting for pod in world.pods()].count(False) == 4
    world.run(30)
    assert world.phases() == ["Running"] * 4


def test_a_failed_pod_is_replaced_and_kept() -> None:
    """It does not count any more; a pod that fails again and again makes one a second."""
    world = World()
    world.cluster.apply(deployed(1))
    world.run(2)
    world.fail(world.names()[0])
    world.run(3)
    assert sorted(world.phases()) == ["Failed", "Running"]


def test_a_pod_that_its_node_rejects_makes_no_storm() -> None:
    """A replica that can never start is replaced once a second, not at once."""
    world = World(nodes=1)
    world.cluster.apply(workload("ReplicaSet", template=pod_spec("9", nodeName="n0"), replicas=1))
    world.run(5)
    assert 4 <= len(world.names()) <= 7


def test_a_changed_count_is_followed() -> None:
    """Up and down; pods that are not ready go before those that are."""
    world = World(stop=0)
    world.cluster.apply(deployed(2))
    world.run(2)
    kept = world.names()
    world.cluster.apply(deployed(5))
    world.run(0.5)
    assert len(world.names()) == 5
    world.cluster.apply(deployed(2))
    world.run(1)
    assert world.names() == kept
    world.cluster.apply(deployed(0))
    world.run(1)
    assert world.names() == []


def test_a_changed_template_is_rolled_out() -> None:
    """At every moment there are at most a quarter more, and available a quarter fewer."""
    world = World(stop=0)
    world.cluster.apply(deployed(8))
    world.run(2)
    world.cluster.apply(deployed(8, "app:2"))
    for _ in range(40):
        world.run(0.25)
        active = [pod for pod in world.pods() if not pod.deleting]
        assert len(active) <= 10
        assert world.status(DEPLOYMENT)["readyReplicas"] >= 6
    assert images(world) == ["app:2"] * 8
    sets = {pod.typed.metadata.name: world.status(REPLICA_SET, pod.name) for pod in _sets(world)}
    assert sorted(status["replicas"] for status in sets.values()) == [0, 8]


def _sets(world: World) -> list[Stored]:
    return world.store.select(REPLICA_SET)


def test_recreate_waits_until_the_old_pods_have_gone() -> None:
    """No pod of the new template is there beside one of the old."""
    world = World()
    strategy = {"type": "Recreate"}
    world.cluster.apply(deployed(3, strategy=strategy))
    world.run(2)
    world.cluster.apply(deployed(3, "app:2", strategy=strategy))
    world.run(29)
    assert images(world) == []
    assert len(world.names()) == 3
    world.run(3)
    assert images(world) == ["app:2"] * 3


def test_a_restored_template_reuses_its_replica_set() -> None:
    """A roll-back uses the old set again; empty sets beyond the limit go."""
    world = World(stop=0)
    for image in ("app:1", "app:2", "app:1"):
        world.cluster.apply(deployed(2, image, revisionHistoryLimit=1))
        world.run(10)
    assert len(_sets(world)) == 2
    world.cluster.apply(deployed(2, "app:3", revisionHistoryLimit=1))
    world.run(10)
    assert len(_sets(world)) == 2
    assert images(world) == ["app:3"] * 2


def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    """The new template waits for the end of the pause."""
    world = World(stop=0)
    world.cluster.apply(deployed(2))
    world.run(2)
    world.cluster.apply(deployed(3, "app:2", paused=True))
    world.run(5)
    assert images(world) == ["app:1"] * 3
    world.cluster.apply(deployed(3, "app:2"))
    world.run(10)
    assert images(world) == ["app:2"] * 3


def test_dependents_of_a_deployment_are_deleted() -> None:
    """Sets in the next step, pods after their grace period; nothing is made anew."""
    world = World()
    world.cluster.apply(deployed())
    world.run(2)
    world.delete(DEPLOYMENT, "web")
    world.run()
    assert _sets(world) == []
    assert all(pod.deleting for pod in world.pods())
    world.run(30)
    assert world.names() == []


def test_pods_that_admission_refuses_are_tried_again() -> None:
    """The missing priority class comes later, and so do the pods."""
    world = World()
    template = pod_spec(priorityClassName="urgent")
    world.cluster.apply(workload("ReplicaSet", template=template, replicas=2))
    world.run(5)
    assert world.names() == []
    world.cluster.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 7,
        }
    )
    world.run(10)
    assert [world.pod(name).spec.priority for name in world.names()] == [7, 7]


def test_a_replication_controller_keeps_its_pods() -> None:
    """As a replica set does."""
    world = World()
    controller = workload("ReplicaSet", replicas=2)
    controller |= {"apiVersion": "v1", "kind": "ReplicationController"}
    controller["spec"]["selector"] = {"app": "web"}
    world.cluster.apply(controller)
    world.run(2)
    world.delete(POD, world.names()[0])
    world.run(31)
    assert world.phases() == ["Running", "Running"]


def test_a_set_that_is_orphaned_leaves_its_pods_alone() -> None:
    """Deleted without what it owns: the pods stay, and name no owner."""
    world = World()
    world.cluster.apply(workload("ReplicaSet", replicas=2))
    world.run(2)
    world.cluster.delete(Key(REPLICA_SET, "default", "web"), DeleteOptions(orphan=True))
    world.run(60)
    assert world.phases() == ["Running", "Running"]
    assert all(not pod.typed.metadata.owner_references for pod in world.pods())


def test_many_pods_are_created_and_deleted_in_batches() -> None:
    """An owner that has no more time gets its turn between two of them."""
    world = World(nodes=0, stop=0)
    counts = [0]

    def step() -> int:
        world.cluster.step(lambda: True)
        counts.append(len(world.store.select(POD)))
        return abs(counts[-1] - counts[-2])

    for wanted in (2 * BURST + 10, 0):
        world.cluster.apply(workload("ReplicaSet", replicas=wanted))
        while counts[-1] != wanted:
            assert world.cluster.next_wakeup() == world.clock.ns
            assert step() <= BURST
        world.cluster.step()
        assert world.cluster.next_wakeup() is None
