"""Daemon sets: one pod on every node that will have it."""

from __future__ import annotations

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import DAEMON_SET, NODE, POD
from tests.embedded.world import Plain, World, node, pod_spec, typed, workload


def daemons(image: str = "app:1", **spec: object) -> Plain:
    """Return a daemon set."""
    template = pod_spec(**{k: v for k, v in spec.items() if k == "nodeSelector"})
    template["containers"][0]["image"] = image
    rest = {k: v for k, v in spec.items() if k != "nodeSelector"}
    return workload("DaemonSet", "agent", template=template, **rest)


def places(world: World) -> list[str]:
    """Return the nodes of the pods that are to stay, sorted."""
    return sorted(typed(pod).spec.node_name for pod in world.pods() if not pod.deleting)


def test_every_node_gets_a_pod() -> None:
    """Also one that comes later; the status counts them."""
    world = World()
    world.cluster.apply(daemons())
    world.run(2)
    assert places(world) == ["n0", "n1", "n2"]
    world.cluster.apply(node("n3"))
    world.run(2)
    assert places(world) == ["n0", "n1", "n2", "n3"]
    counts = {
        "desiredNumberScheduled": 4,
        "currentNumberScheduled": 4,
        "updatedNumberScheduled": 4,
        "numberReady": 4,
    }
    assert counts.items() <= world.status(DAEMON_SET, "agent").items()


def test_only_nodes_that_it_may_run_on() -> None:
    """Selectors and taints count; a node that changes gets its pod, or loses it."""
    world = World(nodes=0, stop=0)
    world.cluster.apply(node("a", labels={"gpu": "yes"}))
    world.cluster.apply(node("b"))
    taint = {"key": "own", "value": "x", "effect": "NoSchedule"}
    world.cluster.apply(node("c", labels={"gpu": "yes"}, taints=[taint]))
    world.cluster.apply(daemons(nodeSelector={"gpu": "yes"}))
    world.run(2)
    assert places(world) == ["a"]
    world.cluster.apply(node("b", labels={"gpu": "yes"}))
    world.cluster.apply(node("a"))
    world.run(2)
    assert places(world) == ["b"]


def test_a_deleted_pod_is_replaced_on_its_node() -> None:
    """Once it has been deleted; a failed one too."""
    world = World(stop=0)
    world.cluster.apply(daemons())
    world.run(2)
    gone = world.pods()[0]
    world.delete(POD, gone.name)
    world.run(2)
    assert places(world) == ["n0", "n1", "n2"]
    world.fail(world.pods()[0].name)
    world.run(3)
    assert world.phases() == ["Running"] * 3
    assert gone.name not in world.names()


def test_a_node_that_goes_takes_its_pod_with_it() -> None:
    """It is deleted, and not made again."""
    world = World()
    world.cluster.apply(daemons())
    world.run(2)
    world.cluster.delete(Key(NODE, "", "n1"))
    world.run(60)
    assert places(world) == ["n0", "n2"]


def test_pods_are_renewed_one_node_at_a_time() -> None:
    """All but one stay available while a new template is rolled out."""
    world = World(stop=0)
    world.cluster.apply(daemons())
    world.run(2)
    world.cluster.apply(daemons("app:2"))
    for _ in range(20):
        world.run(0.25)
        assert world.status(DAEMON_SET, "agent").get("numberReady", 0) >= 2
    images = [pod.data["spec"]["containers"][0]["image"] for pod in world.pods()]
    assert images == ["app:2"] * 3
    assert world.status(DAEMON_SET, "agent")["updatedNumberScheduled"] == 3
