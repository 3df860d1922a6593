"""Promises of `domain(...).nodes`: rules over the nodes of a rack, as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Racks}}
spec:
  filter:
  - expression: {rule}
    message: the rack is not well
    onError: Allow
"""
WELL = 'domain("rack").nodes.all(n, n.annotations[?"sick"].orValue("") == "")'


def scheduler(tmp_path: Path, rule: str) -> Scheduler:
    """Return a scheduler with two racks of two nodes, and one node in none."""
    policy = tmp_path / "racks.yaml"
    policy.write_text(POLICY.format(rule=rule), "utf-8")
    made = build(None, [str(policy)], now=FakeClock())
    for name in ("a1", "a2", "b1", "b2"):
        event_handlers.node_seen(made, make_node(name, labels={"rack": name[0]}))
    event_handlers.node_seen(made, make_node("none"))
    return made


def feasible(made: Scheduler, pod: PodInfo) -> list[str]:
    """Return the nodes that a pod may go to, from a cached evaluation if there is one."""
    evaluation = made.profiles["default-scheduler"].evaluator.evaluate(pod)
    names = made.cache.nodes.names
    rows = {"a1", "a2", "b1", "b2", "none"}
    statuses = evaluation.filtering.statuses()
    return sorted(rows - {names[row] for row in statuses})


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        (WELL, ["b1", "b2", "none"]),
        ('domain("rack").nodes.exists(n, n.name == "b2")', ["b1", "b2", "none"]),
        ('domain("rack").nodes.map(n, n.podCount).max() == 0', ["b1", "b2", "none"]),
        ('domain("rack").nodes.filter(n, n.free["cpu"] > quantity("3")).size() == 2',
         ["b1", "b2", "none"]),
        ('domains("rack").exists(d, d.nodes.exists(n, n.name == pod.labels["near"]))',
         ["a1", "a2", "b1", "b2", "none"]),
    ],
)  # fmt: skip
def test_a_rule_sees_the_nodes_of_its_domain(tmp_path: Path, rule: str, nodes: list[str]) -> None:
    """Only pods and totals of a rack could be read, not which of its nodes is ill."""
    made = scheduler(tmp_path, rule)
    sick = make_node("a2", labels={"rack": "a"})
    sick.metadata.annotations["sick"] = "yes"
    event_handlers.node_seen(made, sick)
    event_handlers.pod_seen(made, PodInfo.of(make_pod("old", cpu="2", node_name="a2")))
    pod = PodInfo.of(make_pod("p", labels={"near": "b2"}))
    assert feasible(made, pod) == nodes


def test_a_node_that_changes_changes_what_its_neighbours_get(tmp_path: Path) -> None:
    """What is kept of an equal pod's evaluation is not used after any node of the rack changed."""
    made = scheduler(tmp_path, WELL)
    first, second = (PodInfo.of(make_pod(name)) for name in ("p", "q"))
    assert feasible(made, first) == ["a1", "a2", "b1", "b2", "none"]
    sick = make_node("a2", labels={"rack": "a"})
    sick.metadata.annotations["sick"] = "yes"
    event_handlers.node_seen(made, sick)
    assert feasible(made, second) == ["b1", "b2", "none"]
    event_handlers.node_seen(made, make_node("a2", labels={"rack": "a"}))
    assert feasible(made, second) == ["a1", "a2", "b1", "b2", "none"]


def test_a_change_of_a_neighbour_wakes_a_pod(tmp_path: Path) -> None:
    """A pod that no rack was good enough for waited for five minutes."""
    made = scheduler(tmp_path, 'domain("rack").nodes.exists(n, n.annotations[?"ok"].hasValue())')
    event_handlers.node_gone(made, make_node("none"))
    event_handlers.pod_seen(made, PodInfo.of(make_pod("p")))
    made.schedule_one()
    assert [queued.info.name for queued in made.queue.unschedulable()] == ["p"]
    well = make_node("a2", labels={"rack": "a"})
    well.metadata.annotations["ok"] = "yes"
    event_handlers.node_seen(made, well)
    assert not list(made.queue.unschedulable())


def test_a_condition_that_reads_the_node_is_refused(tmp_path: Path) -> None:
    """It would compare every node with every other."""
    with pytest.raises(PolicyError, match="PS509: this predicate over a domain's nodes") as error:
        scheduler(tmp_path, 'domain("rack").nodes.all(n, n.podCount >= node.podCount)')
    assert "outside of the loop" in str(error.value)
