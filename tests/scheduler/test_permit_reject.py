"""Promises of permit.reject, permit.activate and postFilter: a group that gives up early."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.model.pod_info import QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node
from tests.scheduler.pod_groups import Driven
from tests.scheduler.test_group_history import member, ring

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Early}}
spec:
  permit:
    allow: podGroup.scheduled + podGroup.waiting + 1 >= podGroup.minCount
    timeout: 10m
    message: waiting for the others
{permit}
{rest}
"""
REJECT = """
    reject: podGroup.failures > 0 && 2 * (podGroup.scheduled + podGroup.waiting) < podGroup.minCount
    rejectMessageExpression: '"less than half of " + podGroup.name'
"""
NOTE = '  postFilter: \'pod.podGroup == "" ? "" : "group " + podGroup.name + " has no room"\''


class Run(Driven):
    """A scheduler with a policy; each node has room for one member."""

    def __init__(self, tmp_path: Path, count: int, nodes: int, permit: str, rest: str = "") -> None:
        policy = tmp_path / "early.yaml"
        policy.write_text(POLICY.format(permit=permit, rest=rest), "utf-8")
        clock = FakeClock()
        objects = (ring(count=count),)
        super().__init__(build(None, [str(policy)], now=clock, objects=objects), clock)
        for i in range(nodes):
            event_handlers.node_seen(self.scheduler, make_node(f"n{i}"))

    @property
    def waiting(self) -> list[str]:
        """The pods that wait for permission."""
        return [waiting.pod.name for waiting in self.scheduler.handle.waiting_pods]


def test_waiting_pods_go_back_when_one_of_their_group_finds_no_node(tmp_path: Path) -> None:
    """Two pods of a group of five held their nodes for ten minutes after a third found none."""
    run = Run(tmp_path, 5, 2, REJECT)
    run.add(*[member(name) for name in "abc"])
    run.scheduler.schedule_one()
    run.scheduler.schedule_one()
    assert run.waiting == ["a", "b"]
    run.scheduler.schedule_one()
    run.scheduler.run_due()
    assert run.waiting == []
    assert (
        run.message("a")
        == run.message("b")
        == ("0/1 nodes are available: 1 less than half of ring.")
    )
    assert run.scheduler.handle.groups.of(("default", "ring")).failed_at == run.clock.ns


def test_a_group_that_nearly_has_its_pods_goes_on_waiting(tmp_path: Path) -> None:
    """Nobody is sent back, and the group has not failed."""
    run = Run(tmp_path, 3, 2, REJECT)
    run.add(*[member(name) for name in "abc"])
    for _ in range(3):
        run.scheduler.schedule_one()
    run.scheduler.run_due()
    assert run.waiting == ["a", "b"]
    counts = run.scheduler.handle.groups.of(("default", "ring"))
    assert (counts.failures, counts.failed_at) == (1, None)


def test_a_failure_from_before_sends_nobody_back(tmp_path: Path) -> None:
    """The next attempt of the group begins with none, also within the same moment."""
    run = Run(tmp_path, 5, 0, REJECT)
    event_handlers.node_seen(run.scheduler, make_node("small", cpu="1"))
    run.add(member("a"))
    run.scheduler.schedule_one()
    event_handlers.node_seen(run.scheduler, make_node("n0"))
    run.add(member("b"))
    run.clock.advance(20)
    run.scheduler.run_due()
    run.scheduler.schedule_one()
    assert len(run.waiting) == 1


def test_a_rule_that_fails_sends_the_pods_back_with_its_error(tmp_path: Path) -> None:
    """A waiting pod is not held by a rule that cannot be evaluated."""
    reject = "    reject: podGroup.failures > 0 && pod.labels['missing'] == ''\n"
    run = Run(tmp_path, 5, 1, reject)
    run.add(member("a"), member("b"))
    run.scheduler.schedule_one()
    outcome = run.scheduler.schedule_one()
    assert outcome is not None
    assert "no such key 'missing'" in outcome.message


@pytest.mark.parametrize(("rule", "states"), [("podGroup.waiting == 0", "A"), ("false", "U")])
def test_the_policy_says_who_is_tried_at_once(tmp_path: Path, rule: str, states: str) -> None:
    """Every pod that began to wait had the others tried."""
    run = Run(tmp_path, 3, 0, f"    activate: {rule}\n")
    event_handlers.node_seen(run.scheduler, make_node("small", cpu="1"))
    run.add(member("a"))
    run.scheduler.schedule_one()
    run.add(member("b", cpu="1"))
    queued = run.scheduler.queue.get("default/a")
    assert queued is not None
    run.scheduler.queue.by_uid["default/a"].backoff_until = run.clock.ns + 10**12
    run.scheduler.schedule_one()
    assert run.waiting == ["b"]
    assert (queued.place is QueueState.ACTIVE) == (states == "A")


def test_a_pod_that_finds_no_node_is_told_more(tmp_path: Path) -> None:
    """The message named what nodes lack and nothing of what to do; an empty text adds nothing."""
    run = Run(tmp_path, 2, 0, "", NOTE)
    event_handlers.node_seen(run.scheduler, make_node("small", cpu="1"))
    run.add(member("a"), member("alone", of=""))
    run.go()
    text = "0/1 nodes are available: 1 Insufficient cpu."
    assert run.message("a").startswith(text)
    assert run.message("a").endswith(" group ring has no room")
    assert "has no room" not in run.message("alone")


@pytest.mark.parametrize(
    ("permit", "problem"),
    [
        (
            "    rejectMessage: why\n",
            "spec.permit.rejectMessage: Forbidden: the section has no reject",
        ),
        (
            f"{REJECT}    rejectMessage: why\n",
            "spec.permit.rejectMessageExpression: Forbidden: the rule has rejectMessage already",
        ),
        ("    reject: node.podCount > 1\n", "`node` is not available in permit.reject"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, permit: str, problem: str) -> None:
    """With its place."""
    with pytest.raises(PolicyError, match=problem.replace(".", r"\.")):
        Run(tmp_path, 2, 0, permit)
