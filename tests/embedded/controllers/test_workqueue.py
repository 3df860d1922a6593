"""Timers: one time per key, the earliest first."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.embedded.controllers.workqueue import FEW, KeyTimers

STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 9)), max_size=30)


@given(STEPS, st.integers(0, 10))
def test_the_latest_setting_of_a_key_counts(steps: list[tuple[str, int | None]], now: int) -> None:
    """Keys come in order of their times; None clears a key."""
    timers: KeyTimers[str] = KeyTimers()
    wanted: dict[str, int] = {}
    for key, due in steps:
        if due is None:
            timers.clear(key)
            wanted.pop(key, None)
        else:
            timers.set(key, due)
            wanted[key] = due
    assert timers.next() == min(wanted.values(), default=None)
    assert bool(timers) is bool(wanted)
    expired = list(timers.expired(now))
    assert sorted(expired) == sorted(key for key, due in wanted.items() if due <= now)
    assert [wanted[key] for key in expired] == sorted(wanted[key] for key in expired)
    assert timers.next() == min((due for due in wanted.values() if due > now), default=None)


def test_a_key_may_be_set_again_while_it_is_dealt_with() -> None:
    """It comes again if its time has come too."""
    timers: KeyTimers[str] = KeyTimers()
    timers.set("a", 1)
    seen = []
    for key in timers.expired(3):
        seen.append(key)
        if len(seen) < 3:
            timers.set("a", 1 + len(seen))
    assert seen == ["a", "a", "a"]
    assert timers.next() is None


def test_times_that_do_not_count_any_more_are_few() -> None:
    """A time that is put off again and again, or cleared, is not kept until it comes."""
    timers: KeyTimers[int] = KeyTimers()
    for number in range(5000):
        timers.set(0, 10_000 + number)
        timers.set(number, 20_000)
        timers.clear(number)
    timers.set(1, 30_000)
    timers.set(2, 15_000)
    assert len(timers) == 3
    assert len(timers._heap) <= 2 * len(timers) + FEW
    assert ([timers.pop() for _ in range(3)], bool(timers)) == ([0, 2, 1], False)
