"""Nominations that end: the pods that respected them are retried."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler.event_handlers import pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.testing import make_node
from tests.scheduler.world import pod_of, run, scheduler_of


def _nominee(node: str, version: str) -> PodInfo:
    pod = pod_of("nominee", cpu="4", priority=5, nominated_node_name=node).pod
    return PodInfo.of(replace(pod, metadata=replace(pod.metadata, resource_version=version)))


@pytest.fixture
def blocked() -> tuple[Scheduler, PodInfo]:
    """The only node is nominated for all it has, so a pod of lower priority is rejected."""
    scheduler = scheduler_of()
    nominee = _nominee("n0", "1")
    pod_seen(scheduler, nominee)
    scheduler.handle.nominator.nominate(nominee, "n0")
    scheduler.queue.pop()
    assert run(scheduler, name="small").node == ""
    return scheduler, nominee


def _place(scheduler: Scheduler) -> QueueState:
    (small,) = [
        queued
        for queued in (*scheduler.queue.backoff(), *scheduler.queue.unschedulable())
        if queued.info.name == "small"
    ]
    return small.place


def test_a_nomination_that_the_cluster_takes_back_ends(blocked: tuple[Scheduler, PodInfo]) -> None:
    """It was known there, and is cleared: no pod has to respect it."""
    scheduler, _ = blocked
    assert _place(scheduler) is QueueState.UNSCHEDULABLE
    pod_seen(scheduler, _nominee("", "2"))
    assert len(scheduler.handle.nominator) == 0
    assert _place(scheduler) is QueueState.BACKOFF


def test_a_nomination_that_moves_leaves_its_node(blocked: tuple[Scheduler, PodInfo]) -> None:
    """On its former node, the pod counts no more."""
    scheduler, nominee = blocked
    pod_seen(scheduler, _nominee("elsewhere", "2"))
    assert scheduler.handle.nominator.node_of(nominee.uid) == "elsewhere"
    assert _place(scheduler) is QueueState.BACKOFF


def test_a_repeated_nomination_requeues_no_pod(blocked: tuple[Scheduler, PodInfo]) -> None:
    """No capacity was freed."""
    scheduler, nominee = blocked
    pod_seen(scheduler, _nominee("n0", "2"))
    assert scheduler.handle.nominator.node_of(nominee.uid) == "n0"
    assert _place(scheduler) is QueueState.UNSCHEDULABLE


def test_a_nominated_pod_that_is_deleted_leaves_its_node(
    blocked: tuple[Scheduler, PodInfo],
) -> None:
    """As if it had run there."""
    scheduler, nominee = blocked
    pod_gone(scheduler, nominee)
    assert len(scheduler.handle.nominator) == 0
    assert _place(scheduler) is QueueState.BACKOFF


def test_a_nomination_that_the_cluster_has_not_heard_of_stays() -> None:
    """An update from before the write of the nomination does not clear it."""
    scheduler = scheduler_of()
    pod_seen(scheduler, _nominee("", "1"))
    scheduler.handle.nominator.nominate(_nominee("", "1"), "n0")
    changed = _nominee("", "2")
    pod_seen(scheduler, changed)
    assert scheduler.handle.nominator.node_of(changed.uid) == "n0"


def test_a_node_that_was_cordoned_meanwhile_is_not_taken() -> None:
    """A pod whose victims were gone went to its node, which had been cordoned in between."""
    scheduler = scheduler_of()
    pods = [pod_of(f"p{i}", cpu="1", priority=5) for i in range(3)]
    scheduler.handle.nominator.nominate(pods[0], "n0")
    evaluator = scheduler.profiles["default-scheduler"].evaluator
    for pod in reversed(pods):
        assert evaluator.evaluate(pod).filtering.feasible_rows().tolist() == [0]
    node = make_node("n0", cpu="4")
    scheduler.cache.update_node(replace(node, spec=replace(node.spec, unschedulable=True)))
    assert not evaluator.evaluate(pods[0]).filtering.feasible_rows().size


def test_a_node_that_is_nominated_no_longer_has_no_reason() -> None:
    """A node that a pod could have again stayed among those that the message counts."""
    scheduler = scheduler_of(nodes=2)
    nominees = [pod_of(f"nominee{i}", cpu="4", priority=10) for i in range(2)]
    for i, nominee in enumerate(nominees):
        scheduler.handle.nominator.nominate(nominee, f"n{i}")
    evaluator = scheduler.profiles["default-scheduler"].evaluator
    for name in ("a", "b", "c"):
        small = pod_of(name, cpu="1")
        assert sorted(evaluator.evaluate(small).filtering.statuses()) == [0, 1]
    scheduler.handle.nominator.clear(nominees[0].uid)
    assert sorted(evaluator.evaluate(small).filtering.statuses()) == [1]
