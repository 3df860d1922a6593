"""The queue: pods leave in key order, and are in one place only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import QueuedPod
from policy_sched.queue.nominator import Nominator
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import make_pod


def queued(name: str, priority: int = 0) -> QueuedPod:
    return QueuedPod(PodInfo.of(make_pod(name, priority=priority)))


def by_priority(pod: QueuedPod) -> tuple[int]:
    return (-pod.info.priority,)


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_pods_leave_by_key_and_equal_keys_in_order_of_arrival(priorities: list[int]) -> None:
    """Popping everything gives a stable sort of what was added."""
    queue = SchedulingQueue(by_priority)
    pods = [queued(f"p{i}", priority) for i, priority in enumerate(priorities)]
    for pod in pods:
        queue.add(pod)
    popped = [queue.pop() for _ in pods]
    assert popped == sorted(pods, key=by_priority)
    assert queue.pop() is None


def test_a_pod_added_again_leaves_once_at_its_new_place() -> None:
    """An update moves the pod; the stale entry is skipped."""
    queue = SchedulingQueue(by_priority)
    low = queued("a", 0)
    queue.add(low)
    queue.add(queued("b", 5))
    queue.add(queued("a", 9))
    assert len(queue) == 2
    names = [pod.info.name for pod in (queue.pop(), queue.pop()) if pod]
    assert names == ["a", "b"]
    assert queue.pop() is None


def test_a_popped_pod_is_in_flight_until_it_is_done() -> None:
    """Each pop counts an attempt."""
    queue = SchedulingQueue(by_priority)
    pod = queued("a")
    queue.add(pod)
    queue.pop()
    assert pod.attempts == 1
    assert list(queue.in_flight) == [pod.info.uid]
    queue.done(pod.info.uid)
    assert not queue.in_flight


def test_gated_and_deleted_pods_are_not_popped() -> None:
    """A gated pod waits outside; a deleted one is gone from wherever it was."""
    queue = SchedulingQueue(by_priority)
    gated, gone = queued("gated"), queued("gone")
    queue.add(gated)
    queue.gate(gated)
    queue.add(gone)
    queue.delete(gone.info.uid)
    assert queue.pop() is None
    assert list(queue.gated) == [gated.info.uid]
    queue.add(gated)
    assert not queue.gated
    assert queue.pop() is gated


def test_a_nomination_replaces_the_one_before() -> None:
    """A pod is nominated to one node at most."""
    nominator = Nominator()
    pod = queued("a").info
    nominator.nominate(pod, "n1")
    nominator.nominate(pod, "n2")
    assert nominator.pods_on("n1") == ()
    assert nominator.nominated() == (("n2", (pod,)),)
    assert nominator.node_of(pod.uid) == "n2"
    nominator.clear(pod.uid)
    nominator.clear(pod.uid)
    assert nominator.node_of(pod.uid) == ""
    assert nominator.nominated() == ()
