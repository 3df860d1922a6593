"""Deciding a whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policy_sched.model.meta import ApiObject, ObjectMeta
from policy_sched.model.pod_group import LABEL, CoschedulingGroup, CoschedulingSpec
from policy_sched.scheduler.setup.factory import build
from policy_sched.simulate.cluster_load import load_cluster
from policy_sched.simulate.one_shot import run_cluster
from policy_sched.simulate.report import Preemption, Run
from policy_sched.testing import make_node, make_pod

GANG = str(Path(__file__).parents[2] / "policies" / "gang")


def decided(*objects: ApiObject, seed: int = 0, policies: Sequence[str] = ()) -> Run:
    """Return the run over some objects."""
    scheduler = build(None, policies, objects=objects, seed=seed)
    pending = load_cluster(scheduler.cache, objects)
    told: list[int] = []
    run = run_cluster(scheduler, pending, told.append)
    assert scheduler.cache.check() == []
    return run


def nodes_of(run: Run) -> dict[str, str | None]:
    """Return where each pod went."""
    return {placement.pod: placement.node for placement in run.placements}


def test_every_pending_pod_has_one_placement_in_input_order() -> None:
    """Whatever order the queue decides in, the answer is in the order of the question."""
    run = decided(
        make_node("n1", cpu="2"),
        make_pod("low", cpu="1"),
        make_pod("high", cpu="2", priority=10),
        make_pod("gated", gates=["hold"]),
    )
    assert nodes_of(run) == {"default/low": None, "default/high": "n1", "default/gated": None}
    assert run.placed == 1


def test_running_pods_count_and_ended_pods_do_not() -> None:
    """A pod on a node takes room there, unless it has ended."""
    full = make_pod("full", cpu="4", node_name="n1")
    ended = make_pod("ended", cpu="4", node_name="n2", phase="Succeeded")
    over = make_pod("over", phase="Failed")
    run = decided(make_node("n1"), make_node("n2"), full, ended, over, make_pod("p", cpu="4"))
    assert nodes_of(run) == {"default/p": "n2"}


def test_a_pod_that_fits_nowhere_has_kube_schedulers_message() -> None:
    """The message is the whole text of the event; the summary counts its reasons."""
    run = decided(
        make_node("n1", cpu="1"),
        make_node("n2", taints=["a=b:NoSchedule"]),
        make_pod("p", cpu="2"),
        make_pod("q", cpu="2"),
    )
    messages = {placement.message for placement in run.placements}
    (message,) = messages
    head = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert message.startswith(head)
    assert run.unschedulable_by == {
        "Insufficient cpu": 2,
        "node(s) had untolerated taint(s)": 2,
    }


def test_pods_that_never_enter_the_queue_say_why() -> None:
    """Gated, of another scheduler, or on their way out."""
    leaving = make_pod("leaving")
    leaving.metadata.deletion_timestamp = make_pod(
        "x", created="2026-01-01T00:00:00Z"
    ).metadata.creation_timestamp
    run = decided(
        make_node("n1"),
        make_pod("gated", gates=["a", "b"]),
        make_pod("other", scheduler_name="mine"),
        leaving,
    )
    assert [placement.message for placement in run.placements] == [
        "waiting for scheduling gates: [a b]",
        'no profile has schedulerName "mine"',
        "skip schedule deleting pod: default/leaving",
    ]


def test_without_nodes_nothing_is_available() -> None:
    """kube-scheduler's words for an empty cluster."""
    run = decided(make_pod("p"))
    assert run.placements[0].message == "no nodes available to schedule pods"
    assert run.allocation == ()


def test_the_seed_decides_ties_and_nothing_else() -> None:
    """The same seed gives the same placements; seeds differ only among equal nodes."""
    cluster = [make_node(f"n{i}") for i in range(20)] + [make_pod(f"p{i}") for i in range(10)]
    runs = [nodes_of(decided(*cluster, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_allocation_adds_up() -> None:
    """Requested and allocatable over all nodes, main resources first."""
    run = decided(
        make_node("n1", cpu="4", memory="8Gi", resources={"example.com/x": "2"}),
        make_node("n2", cpu="4", memory="8Gi"),
        make_pod("r", cpu="1", memory="1Gi", node_name="n1"),
        make_pod("p", cpu="500m", requests={"example.com/x": "1"}),
    )
    found = {a.resource: (a.requested, a.allocatable) for a in run.allocation}
    assert found == {
        "cpu": (1500, 8000),
        "memory": (2**30, 2**34),
        "pods": (2, 220),
        "example.com/x": (1, 2),
    }
    assert list(found) == ["cpu", "memory", "pods", "example.com/x"]


def test_preemption_nominates_and_tells_victims_to_go() -> None:
    """The important pod has no node yet; the victim runs on until its node has stopped it."""
    run = decided(
        make_node("n1", cpu="2"),
        make_pod("victim", cpu="2", node_name="n1", started="2026-01-01T00:00:00Z"),
        make_pod("urgent", cpu="2", priority=10),
        make_pod("later", cpu="2"),
    )
    assert nodes_of(run) == {"default/urgent": None, "default/later": None}
    assert run.preemptions == (Preemption("default/urgent", "n1", ("default/victim",)),)
    assert {a.resource: a.requested for a in run.allocation}["cpu"] == 2000


def gang(members: int, nodes: int) -> Run:
    """Return the run of a gang of three whose members need a node each."""
    meta = ObjectMeta(name="ring", namespace="default")
    return decided(
        CoschedulingGroup(metadata=meta, spec=CoschedulingSpec(min_member=3)),
        *(make_node(f"n{i}") for i in range(nodes)),
        *(make_pod(f"p{i}", cpu="3", labels={LABEL: "ring"}) for i in range(members)),
        policies=[GANG],
    )


def test_pods_that_wait_are_placed_if_they_are_let_go() -> None:
    """The last member of a gang completes it for all."""
    assert gang(3, 3).placed == 3


def test_pods_that_are_held_are_not_placed() -> None:
    """What would let them go never comes; the message says what they wait for, and where."""
    run = gang(3, 2)
    assert run.placed == 0
    messages = [placement.message for placement in run.placements]
    held = [message for message in messages if message.startswith("held on n")]
    assert len(held) == 2
    assert any(one.endswith(" by Gang: waiting for 2 more of pod group ring") for one in held)
    assert run.unschedulable_by["waiting for 1 more of pod group ring"] == 1
