"""Simulated kubelets: what becomes of a pod once it is bound."""

from __future__ import annotations

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.store.deletion import DeleteOptions
from policy_sched.testing import SECOND
from tests.embedded.world import World, node, pod, typed


def test_a_bound_pod_starts_after_a_while() -> None:
    """It is Pending until the start time has passed, then it runs and is ready."""
    world = World(start=2 * SECOND)
    world.cluster.apply(pod("p"))
    world.run(1.9)
    assert world.pod("p").spec.node_name == "n0"
    assert world.pod("p").status.phase == "Pending"
    world.run(0.1)
    status = world.store.get(POD, "default", "p").data["status"]
    assert (status["phase"], status["startTime"]) == ("Running", "2026-01-01T00:00:02Z")
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} == {
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
    }
    assert status["containerStatuses"][0]["ready"]


def test_a_pod_with_a_duration_succeeds_after_it() -> None:
    """The time counts from the start; a pod without one, or with nonsense, runs on."""
    world = World()
    world.cluster.apply(pod("a", duration="1m30s"))
    world.cluster.apply(pod("b"))
    world.cluster.apply(pod("c", duration="soon"))
    world.run(90.9)
    assert world.phases() == ["Running", "Running", "Running"]
    world.run(0.1)
    assert world.phases() == ["Succeeded", "Running", "Running"]
    ready = [c for c in world.pod("a").status.conditions if c.type == "Ready"]
    assert [(c.status, c.reason) for c in ready] == [("False", "PodCompleted")]
    assert world.cluster.next_wakeup() is None


@pytest.mark.parametrize(("grace", "left"), [(None, 30.0), (5, 5.0), (0, 0.0)])
def test_a_deleted_pod_leaves_after_its_grace_period(grace: int | None, left: float) -> None:
    """Until then it is there, and marked; a pod that is not bound goes at once."""
    world = World()
    world.cluster.apply(pod("p"))
    world.run(1.5)
    world.cluster.delete(Key(POD, "default", "p"), DeleteOptions(grace))
    if left:
        world.run(left - 0.01)
        assert world.store.get(POD, "default", "p").deleting
        world.run(0.01)
    assert world.names() == []


def test_a_second_deletion_can_hurry_the_first() -> None:
    """The shorter grace period holds."""
    world = World()
    world.cluster.apply(pod("p"))
    world.run(2)
    for grace in (None, 2):
        world.cluster.delete(Key(POD, "default", "p"), DeleteOptions(grace))
    world.run(2)
    assert world.names() == []


def test_pods_may_stop_before_their_grace_period_is_over() -> None:
    """A stop time cuts every grace period; it does not prolong one."""
    world = World(stop=3 * SECOND)
    for name, grace in (("a", None), ("b", 1)):
        world.cluster.apply(pod(name))
        world.run(2)
        world.cluster.delete(Key(POD, "default", name), DeleteOptions(grace))
    world.run(1)
    assert world.names() == []


def test_a_pod_that_does_not_fit_is_rejected_as_kubelets_do() -> None:
    """Reason and message are the kubelet's; a pod that was rejected takes no room."""
    world = World(nodes=1)
    for name in ("a", "b"):
        world.cluster.apply(pod(name, "3"))
        world.bind(name, "n0")
    world.run(2)
    status = world.store.get(POD, "default", "b").data["status"]
    assert world.phases() == ["Running", "Failed"]
    assert status["reason"] == "OutOfcpu"
    assert status["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu,"
        " requested: 3000, used: 3000, capacity: 4000"
    )
    world.cluster.apply(pod("c", "1"))
    world.bind("c", "n0")
    world.run(2)
    assert world.pod("c").status.phase == "Running"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity"),
        ({"tolerations": []}, "TaintToleration"),
        ({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}, "NodePorts"),
    ],
)
def test_other_reasons_of_rejection(spec: dict[str, object], reason: str) -> None:
    """Labels, ports and taints are checked again on the node."""
    world = World(nodes=0)
    taints = [{"key": "bad", "effect": "NoExecute"}] if reason == "TaintToleration" else []
    world.cluster.apply(node("n0", taints=taints))
    first = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
    bears = [{"operator": "Exists"}]
    world.cluster.apply(pod("first", **{**first, "tolerations": bears}))
    world.bind("first", "n0")
    world.cluster.apply(pod("p", **spec))
    world.bind("p", "n0")
    world.cluster.step()
    status = world.store.get(POD, "default", "p").data["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason)


def test_a_late_node_starts_the_pods_bound_to_it() -> None:
    """Without a node there is no kubelet."""
    world = World(nodes=0)
    world.cluster.apply(pod("p"))
    world.bind("p", "n0")
    world.run(10)
    assert world.pod("p").status.phase == "Pending"
    world.cluster.apply(node("n0"))
    world.run(1)
    assert world.pod("p").status.phase == "Running"


def test_pods_of_a_node_that_has_gone_are_deleted() -> None:
    """After the pod garbage collector's forty seconds, unless the node comes back."""
    world = World(nodes=2)
    world.cluster.apply(pod("p"))
    world.run(2)
    world.cluster.delete(Key(NODE, "", "n0"))
    world.run(39)
    assert world.names() == ["p"]
    world.run(1)
    assert world.names() == []


def test_pods_that_do_not_bear_a_taint_are_evicted() -> None:
    """NoExecute: at once, or when the toleration's time is over, or never."""
    world = World(nodes=1, stop=0)
    bears = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
    world.cluster.apply(pod("a"))
    world.cluster.apply(pod("b", tolerations=[bears | {"tolerationSeconds": 60}]))
    world.cluster.apply(pod("c", tolerations=[bears]))
    world.run(2)
    world.cluster.apply(node("n0", taints=[{"key": "bad", "effect": "NoExecute"}]))
    world.run(1)
    assert world.names() == ["b", "c"]
    world.run(60)
    assert world.names() == ["c"]
    assert typed(world.pods()[0]).status.phase == "Running"
