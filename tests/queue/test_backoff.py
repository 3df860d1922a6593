"""Backoff: doubled with every attempt in vain, ended together at whole seconds."""

from __future__ import annotations

from itertools import count

import pytest

from policy_sched.model.pod_info import QueuedPod
from policy_sched.queue.backoff import SECOND, Backoff, Timing, window
from tests.queue.pods import by_priority, names, queued

MAYBE = frozenset({"Room"})


def make_backoff(timing: Timing | None = None) -> Backoff:
    return Backoff(by_priority, count(1), timing or Timing())


def rejected(name: str, at: float = 0.0, times: int = 1, **fields: object) -> QueuedPod:
    pod = queued(name, **fields)
    pod.enqueued_at = round(at * SECOND)
    pod.unschedulable_count = times
    pod.rejected_by = MAYBE
    return pod


def broken(name: str, at: float = 0.0, times: int = 1) -> QueuedPod:
    pod = queued(name)
    pod.enqueued_at = round(at * SECOND)
    pod.consecutive_errors = times
    return pod


@pytest.mark.parametrize(
    ("times", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (60, 10), (4000, 10)]
)
def test_a_backoff_doubles_up_to_the_longest(times: int, seconds: int) -> None:
    """One second after the first attempt in vain, ten at most."""
    assert make_backoff().ends(rejected("p", times=times)) == seconds * SECOND
    assert make_backoff().ends(broken("p", times=times)) == seconds * SECOND


def test_errors_in_a_row_count_before_rejections() -> None:
    """A pod that met an error backs off for its errors."""
    pod = rejected("p", times=4)
    pod.consecutive_errors = 1
    assert make_backoff().ends(pod) == SECOND


def test_a_pod_without_a_failed_attempt_has_no_backoff() -> None:
    """A new pod does not back off."""
    backoff = make_backoff()
    assert backoff.ends(queued()) == 0
    assert not backoff.backing_off(queued(), 0)


def test_a_backoff_ends_at_the_start_of_a_window() -> None:
    """Pods of one second become ready together."""
    assert window(2_999_999_999) == 2 * SECOND
    assert make_backoff().ends(rejected("p", at=0.7)) == SECOND


def test_pods_of_one_window_keep_the_queues_order() -> None:
    """Within one second priority decides, not the order of arrival."""
    backoff = make_backoff()
    for pod in (rejected("late", 1.0), rejected("low", 0.1), rejected("high", 0.9, priority=5)):
        backoff.add(pod, "cause")
    assert names(list(backoff)) == ["high", "low", "late"]
    assert backoff.arrivals == {"cause": 3}


def test_a_backoff_is_over_after_its_window() -> None:
    """In the window that it ends in a pod still backs off; rejected pods come out first."""
    backoff = make_backoff()
    for pod in (broken("broken"), rejected("rejected"), rejected("later", 5.0)):
        backoff.add(pod, "cause")
    assert backoff.next_end() == 2 * SECOND
    assert list(backoff.pop_complete(2 * SECOND - 1)) == []
    assert names(list(backoff.pop_complete(2 * SECOND))) == ["rejected", "broken"]
    assert len(backoff) == 1
    assert backoff.next_end() == 7 * SECOND


def test_pods_with_errors_are_never_popped_early() -> None:
    """Only rejected pods may be popped before their time."""
    backoff = make_backoff()
    backoff.add(broken("broken"), "cause")
    assert not backoff.has_early()
    assert backoff.pop_early() is None
    backoff.add(rejected("rejected"), "cause")
    assert backoff.has_early()
    first = backoff.pop_early()
    assert first is not None
    assert first.info.name == "rejected"


def test_an_empty_backoff_has_no_next_end() -> None:
    """There is no time at which something happens."""
    assert make_backoff().next_end() is None


def test_another_order_holds_within_windows() -> None:
    """A change of the queue sort does not change when a backoff ends."""
    backoff = make_backoff()
    for pod in (rejected("a", priority=1), rejected("b", priority=2), rejected("late", 2.0)):
        backoff.add(pod, "cause")
    backoff.rekey(lambda pod: (pod.info.priority,))
    assert names(list(backoff)) == ["a", "b", "late"]


def test_removed_pods_are_gone_and_updated_ones_stay() -> None:
    """An update may change a pod's place among the others of its window."""
    backoff = make_backoff()
    one, two = rejected("one"), rejected("two")
    backoff.add(one, "cause")
    backoff.add(two, "cause")
    two.info = queued("two", priority=3).info
    backoff.update(two)
    assert names(list(backoff)) == ["two", "one"]
    backoff.remove(two)
    assert names(list(backoff)) == ["one"]
