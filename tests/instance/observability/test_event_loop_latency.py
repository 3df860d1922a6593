"""Durations of turns of the event loop: how they are counted, and from when on."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from policy_sched.instance.observability import event_loop_latency

NAME = "policy_sched_event_loop_blocked_seconds"
LONGEST = "policy_sched_event_loop_longest_block_seconds"


def _held(seconds: float) -> None:
    """Hold the loop, as a long operation does."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def _value(turns: event_loop_latency.EventLoopLatency, name: str, **labels: str) -> float:
    registry = CollectorRegistry()
    turns.look()
    registry.register(turns)
    found = registry.get_sample_value(name, labels)
    assert found is not None
    return found


def _run(turns: event_loop_latency.EventLoopLatency, *calls: Callable[[], None]) -> None:
    """Run calls, each in its own turn; collections of other tests' cycles are not in any."""

    async def one_after_the_other() -> None:
        for call in calls:
            await asyncio.sleep(0.001)
            call()

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=lambda: event_loop_latency.measured_loop(turns)) as runner:
            runner.run(one_after_the_other())
    finally:
        gc.enable()


def test_the_longest_turn_is_known_and_the_most_processor_time() -> None:
    """A long callback is measured; the time that the loop waits for events is not."""
    turns = event_loop_latency.EventLoopLatency()
    _run(turns, lambda: None, lambda: _held(0.06), lambda: None)
    assert turns.longest >= 0.06
    assert 0 < turns.longest_busy <= turns.longest * 1.01
    assert _value(turns, LONGEST) == turns.longest
    within, all_ = (_value(turns, f"{NAME}_bucket", le=end) for end in ("0.05", "+Inf"))
    assert all_ >= within + 1
    assert _value(turns, f"{NAME}_count") == all_
    assert _value(turns, f"{NAME}_sum") >= turns.longest


def test_turns_are_counted_by_how_long_they_took() -> None:
    """Each bucket counts durations up to its end; the sum is of all."""
    turns = event_loop_latency.EventLoopLatency()
    turns.begin()
    for seconds in (9.0, 0.05, 0.0500001, 0.25, 7.0):  # the first is the turn of `begin`
        turns.record(seconds, seconds / 2)
    for end, count in (("0.05", 1), ("0.1", 2), ("0.25", 3), ("+Inf", 4)):
        assert _value(turns, f"{NAME}_bucket", le=end) == count
    assert _value(turns, f"{NAME}_count") == 4
    assert _value(turns, f"{NAME}_sum") == 7.3500001
    assert (_value(turns, LONGEST), turns.longest_busy) == (7.0, 3.5)
    assert turns.recent() == (7.0, 3.5)
    assert turns.recent() == (0.0, 0.0)


def test_waiting_is_no_work() -> None:
    """A loop that waits for a timer is not busy."""
    turns = event_loop_latency.EventLoopLatency()
    turns.begin()
    waited = threading.Event()
    _run(turns, waited.set)
    assert waited.is_set()
    assert turns.longest_busy < 0.05


def test_counting_begins_anew_after_the_first_reading() -> None:
    """Earlier turns, and the one in which the listing ends, are not counted."""
    turns = event_loop_latency.EventLoopLatency()

    def read() -> None:
        _held(0.06)
        turns.begin()

    _run(turns, lambda: _held(0.06), read, lambda: None)
    assert turns.longest_busy < 0.05
    assert _value(turns, f"{NAME}_bucket", le="+Inf") >= 1


def test_the_longest_turn_since_the_last_reading_is_reported() -> None:
    """Each result covers the time since the previous one."""
    turns = event_loop_latency.EventLoopLatency()
    _run(turns, lambda: _held(0.03), lambda: None)
    longest, busiest = turns.recent()
    assert (longest, busiest) == (turns.longest, turns.longest_busy)
    assert turns.recent() == (0.0, 0.0)
    turns.record(0.01, 0.005)
    assert (turns.recent(), turns.longest) == ((0.01, 0.005), longest)


def test_what_comes_soon_after_a_turn_shares_the_next_one() -> None:
    """Each response and each watch event of a burst had a turn, and a turn costs as much as a pod.

    While the loop holds off, two sockets become readable: one turn takes both.
    """
    pairs = [socket.socketpair() for _ in range(2)]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        for there, _ in pairs:
            there.send(b"x")

    turns = event_loop_latency.EventLoopLatency()
    loop = event_loop_latency.measured_loop(turns, apart=60.0, sleep=sleep)
    seen: list[int] = []

    async def read() -> None:
        read = [loop.create_future() for _ in pairs]

        def readable(number: int) -> None:
            seen.append(turns.event_loop_blocked_seconds.count())
            loop.remove_reader(pairs[number][1])
            read[number].set_result(None)

        for number, (_, here) in enumerate(pairs):
            loop.add_reader(here, readable, number)
        await asyncio.gather(*read)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(read())
    for pair in pairs:
        for one in pair:
            one.close()
    assert len(set(seen)) == 1
    assert len(seen) == 2
    assert 0 < slept[0] <= 60.0


def test_callbacks_that_follow_each_other_are_one_turn() -> None:
    """Each step of a task on the way of a pod asked the system for events, in vain."""
    turns = event_loop_latency.EventLoopLatency()
    loop = event_loop_latency.measured_loop(turns, apart=60.0, sleep=lambda _: None)

    async def steps() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(steps())
    assert turns.event_loop_blocked_seconds.count() < 10


def test_where_turns_are_few_none_waits() -> None:
    """A pod that came alone had its response put off, and the process woke up once more for it."""
    slept: list[float] = []
    turns = event_loop_latency.EventLoopLatency()
    loop = event_loop_latency.measured_loop(turns, apart=60.0, sleep=slept.append)
    long_ago = [-1e9] * event_loop_latency.IN_A_ROW
    loop._selector._lately.extend(long_ago)  # type: ignore[attr-defined]  # asyncio's own name

    async def respond() -> None:
        here, there = socket.socketpair()
        read = loop.create_future()
        loop.add_reader(here, read.set_result, None)
        there.send(b"x")
        await read
        loop.remove_reader(here)
        here.close()
        there.close()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(respond())
    assert slept == []
