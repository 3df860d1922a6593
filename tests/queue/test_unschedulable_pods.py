"""The pool: groups of pods that were rejected alike, each pod in its turn.

Timers: which pods are retried by time, and when.
"""

from __future__ import annotations

from itertools import count

from policy_sched.model.cluster_event import TIMER, ClusterEventWithHint
from policy_sched.model.pod_info import PodInfo, QueuedPod, QueueState
from policy_sched.queue.hints import HintTable
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.queue.unschedulable_pods import Rejection, Timers, UnschedulablePods
from policy_sched.testing import FakeClock, make_pod
from tests.queue.pods import names, queued


def waiting(name: str, *plugins: str, since: int = 0) -> QueuedPod:
    pod = queued(name)
    pod.rejected_by = frozenset(plugins)
    pod.place = QueueState.UNSCHEDULABLE
    pod.enqueued_at = since
    return pod


def pool_of(*pods: QueuedPod) -> UnschedulablePods:
    pool = UnschedulablePods(count(1))
    for pod in pods:
        pool.add(pod, "cause")
    return pool


def test_pods_of_concerned_groups_keep_their_order() -> None:
    """The oldest pod is first, whatever its group."""
    pool = pool_of(waiting("a", "x"), waiting("b", "y"), waiting("c", "x"), waiting("d", "z"))

    def concerned(rejection: Rejection) -> bool:
        return bool(rejection.rejected_by & {"x", "y"})

    assert names(pool.of_groups(concerned)) == ["a", "b", "c"]
    assert names(list(pool)) == ["a", "b", "c", "d"]
    assert (len(pool), pool.arrivals) == (4, {"cause": 4})


def test_each_group_is_judged_once() -> None:
    """A thousand pods rejected alike are one question."""
    asked: list[Rejection] = []

    def concerned(rejection: Rejection) -> bool:
        asked.append(rejection)
        return False

    pool = pool_of(*(waiting(f"p{i}", "x") for i in range(1000)))
    pool.of_groups(concerned)
    assert asked == [Rejection("default-scheduler", frozenset({"x"}), frozenset(), "")]


def test_a_regrouped_pod_keeps_its_position() -> None:
    """A pod gated by another plugin keeps its position."""
    first, last = waiting("first", "x"), waiting("last", "x")
    pool = pool_of(first, last)
    first.rejected_by = frozenset({"y"})
    pool.regroup(first)
    assert names(list(pool)) == ["first", "last"]
    assert names(pool.of_groups(lambda r: "y" in r.rejected_by)) == ["first"]


def test_a_removed_pod_leaves_no_empty_group() -> None:
    """Empty groups are dropped."""
    pod = waiting("p", "x")
    pool = pool_of(pod)
    pool.remove(pod)
    assert len(pool) == 0
    assert pool.of_groups(lambda _: True) == []


def test_the_oldest_pod_has_waited_longest_for_an_event() -> None:
    """Gated pods wait for no event; a pod that left and came back is as old as its return."""
    gated = waiting("gated", "x", since=1)
    gated.place = QueueState.GATED
    first, second = waiting("first", "x", since=2), waiting("second", "x", since=3)
    pool = pool_of(gated, first, second)
    assert pool.oldest() == 2
    pool.remove(first)
    assert pool.oldest() == 3
    first.enqueued_at = 9
    pool.add(first, "cause")
    pool.remove(second)
    assert pool.oldest() == 9
    pool.remove(first)
    assert pool.oldest() is None


def test_a_removed_pod_is_not_the_oldest() -> None:
    """A pod that comes again and again behind one that stays leaves nothing behind."""
    pool, again = pool_of(waiting("stays", "x", since=1)), waiting("again", "x", since=2)
    for _ in range(100):
        pool.add(again, "cause")
        pool.remove(again)
    assert len(pool._in_turn) == 1
    assert pool.oldest() == 1


SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def in_state(name: str, place: QueueState = QueueState.UNSCHEDULABLE) -> QueuedPod:
    """Return a pod in a state of the queue."""
    return QueuedPod(PodInfo.of(make_pod(name)), place=place)


class TestTimers:
    """The times of pods of the pool."""

    def test_pods_are_due_in_order(self) -> None:
        """The earliest is told, and those that are due are taken out."""
        timers = Timers()
        late, early = in_state("late"), in_state("early")
        timers.set(late, 20)
        timers.set(early, 10)
        assert timers.next() == 10
        assert list(timers.take(9)) == []
        assert list(timers.take(20)) == [early, late]
        assert (timers.next(), len(timers)) == (None, 0)

    def test_the_latest_time_counts(self) -> None:
        """A pod that came back to the pool is due once, from then on."""
        timers, pod = Timers(), in_state("p")
        timers.set(pod, 10)
        timers.set(pod, 30)
        assert timers.next() == 30
        assert list(timers.take(30)) == [pod]

    def test_times_of_pods_that_left_are_skipped(self) -> None:
        """Pods that are active or removed are no longer due."""
        timers, pod = Timers(), in_state("p")
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


def test_a_gate_whose_moment_is_over_backs_off() -> None:
    """Its pod was judged again and again in one flush, which never ended."""
    world = Waiting()
    past = ClusterEventWithHint(TIMER, moment=lambda _queued: 5)
    world.queue.reload(world.gate, HintTable({"default-scheduler": {"Clock": [past]}}))
    world.clock.advance(1)
    pod = world.queue.add(PodInfo.of(make_pod("gated")))
    for _ in range(64):
        world.clock.advance(1)
        world.queue.flush()
    assert (pod.place, world.asked) == (QueueState.GATED, 10)  # at 1, 2, 4, 8, 16, 26 ... s
    world.open = True
    world.clock.advance(10)
    world.queue.flush()
    assert pod.place is QueueState.ACTIVE
