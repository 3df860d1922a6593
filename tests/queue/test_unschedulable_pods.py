"""The pool: groups of pods that were rejected alike, each pod in its turn."""

from __future__ import annotations

from itertools import count

from policy_sched.model.pod_info import QueuedPod, QueueState
from policy_sched.queue.unschedulable_pods import Rejection, UnschedulablePods
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
