"""Timers: which pods are retried by time, and when."""

from __future__ import annotations

from policy_sched.model.cluster_event import TIMER, ClusterEventWithHint
from policy_sched.model.pod_info import PodInfo, QueuedPod, QueueState
from policy_sched.queue.hints import HintTable
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.queue.unschedulable_pods import Timers
from policy_sched.testing import FakeClock, make_pod

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def queued(name: str, place: QueueState = QueueState.UNSCHEDULABLE) -> QueuedPod:
    """Return a pod in some place of the queue."""
    return QueuedPod(PodInfo.of(make_pod(name)), place=place)


class TestTimers:
    """The times of pods of the pool."""

    def test_pods_are_due_in_order(self) -> None:
        """The earliest is told, and those that are due are taken out."""
        timers = Timers()
        late, early = queued("late"), queued("early")
        timers.set(late, 20)
        timers.set(early, 10)
        assert timers.next() == 10
        assert list(timers.take(9)) == []
        assert list(timers.take(20)) == [early, late]
        assert (timers.next(), len(timers)) == (None, 0)

    def test_the_latest_time_counts(self) -> None:
        """A pod that came back to the pool is due once, from then on."""
        timers, pod = Timers(), queued("p")
        timers.set(pod, 10)
        timers.set(pod, 30)
        assert timers.next() == 30
        assert list(timers.take(30)) == [pod]

    def test_times_of_pods_that_left_are_skipped(self) -> None:
        """Pods that are active or removed are no longer due."""
        timers, pod = Timers(), queued("p")
        timers.set(pod, 10)
        pod.place = QueueState.ACTIVE
        assert timers.next() is None
        assert list(timers.take(10)) == []


class Waiting:
    """A queue in which one plugin wants what it rejects to be tried every minute."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.asked = 0
        self.open = False
        registered = {"default-scheduler": {"Clock": [ClusterEventWithHint(TIMER, every=MINUTE)]}}
        self.queue = SchedulingQueue(
            lambda pod: (pod.info.key,), self.clock, gate=self.gate, hints=HintTable(registered)
        )

    def gate(self, pod: PodInfo, _first: str) -> str:
        """Keep the pod called ``gated`` out until it is open."""
        self.asked += 1
        return "Clock" if pod.name == "gated" and not self.open else ""

    def reject(self, by: str) -> QueuedPod:
        """Try a pod in vain."""
        self.queue.add(PodInfo.of(make_pod("p")))
        pod = self.queue.pop()
        assert pod is not None
        self.queue.add_unschedulable_if_not_present(pod, frozenset({by}))
        return pod


def test_a_rejected_pod_is_retried_when_its_time_is_up() -> None:
    """Not before a minute is over, and then without any event."""
    world = Waiting()
    pod = world.reject("Clock")
    assert world.queue.next_flush() == MINUTE
    world.clock.advance(59)
    world.queue.flush()
    assert pod.place is QueueState.UNSCHEDULABLE
    world.clock.advance(1)
    world.queue.flush()
    assert pod.place is QueueState.ACTIVE
    assert world.queue.incoming()["active", "RequeueEvery"] == 1


def test_pods_without_a_time_are_not_retried() -> None:
    """A pod that another plugin rejected waits for its event."""
    world = Waiting()
    pod = world.reject("Other")
    world.clock.advance(120)
    world.queue.flush()
    assert pod.place is QueueState.UNSCHEDULABLE


def test_a_gate_runs_again_when_its_time_is_up() -> None:
    """Once a minute, and no more often; the pod is ready when the gate has nothing against it."""
    world = Waiting()
    pod = world.queue.add(PodInfo.of(make_pod("gated")))
    for _ in range(180):
        world.clock.advance(1)
        world.queue.flush()
    assert (pod.place, world.asked) == (QueueState.GATED, 4)
    world.open = True
    world.clock.advance(60)
    world.queue.flush()
    assert pod.place is QueueState.ACTIVE
