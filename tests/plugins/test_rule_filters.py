"""Errors of a policy's filter: when they end the attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.framework.status import Code
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod

TEXT = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Rules}
spec:
  filter:
  - expression: int(node.labels["rank"]) > 3
    message: rank too low
    onError: Abort
"""
WORDS = "running \"Rules\" filter plugin: rule Rules.filter[0]: no such key 'rank' (node {})"


@pytest.fixture(name="scheduler")
def _scheduler(tmp_path: Path) -> Scheduler:
    """Return a scheduler with the policy behind the default plugins."""
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT)
    return build(None, [str(path)])


def schedule(scheduler: Scheduler, name: str = "p", **spec: object) -> Outcome:
    """Queue a pod and schedule it."""
    scheduler.add_pod(PodInfo.of(make_pod(name, **spec)))  # type: ignore[arg-type]  # its keywords
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("nodes", [3, 40])
def test_it_ends_the_attempt(scheduler: Scheduler, nodes: int) -> None:
    """In kube-scheduler's words for a failed Filter plugin; the pod backs off."""
    for i in range(nodes):
        labels = {} if i == nodes - 1 else {"rank": "5"}
        scheduler.cache.add_node(make_node(f"n{i}", labels=labels))
    outcome = schedule(scheduler)
    assert (outcome.status.code, outcome.message) == (Code.ERROR, WORDS.format(f"n{nodes - 1}"))
    queued = scheduler.queue.get(outcome.pod.uid)
    assert queued is not None
    assert queued.place is QueueState.BACKOFF


def test_a_node_that_another_plugin_rejected_does_no_harm(scheduler: Scheduler) -> None:
    """kube-scheduler would not have run it; once the node passes, it counts."""
    scheduler.cache.add_node(make_node("closed", unschedulable=True))
    scheduler.cache.add_node(make_node("open", labels={"rank": "9"}))
    assert schedule(scheduler).node == "open"
    event_handlers.node_seen(scheduler, make_node("closed"))
    assert schedule(scheduler, "q").message == WORDS.format("closed")
    event_handlers.node_seen(scheduler, make_node("closed", labels={"rank": "1"}))
    assert schedule(scheduler, "r").node == "open"


def test_a_change_that_ends_the_error_requeues_only_its_pods(scheduler: Scheduler) -> None:
    """A change of a node on which the rule fails is worth an attempt."""
    scheduler.cache.add_node(make_node("low", labels={"rank": "1"}))
    outcome = schedule(scheduler)
    assert outcome.message.startswith("0/1 nodes are available: 1 rank too low.")
    event_handlers.node_seen(scheduler, make_node("none"))
    queued = scheduler.queue.get(outcome.pod.uid)
    assert queued is not None
    assert queued.place is not QueueState.UNSCHEDULABLE


def test_room_is_not_made_where_a_rule_fails(scheduler: Scheduler) -> None:
    """Preemption tries the node without its victims, and the rule fails there."""
    scheduler.cache.add_node(make_node("full", cpu="1"))
    scheduler.cache.add_pod(PodInfo.of(make_pod("old", cpu="1", node_name="full", priority=0)))
    outcome = schedule(scheduler, cpu="1", priority=9)
    assert outcome.status.code is Code.ERROR
    assert "rule Rules.filter[0]: no such key 'rank'" in outcome.message
