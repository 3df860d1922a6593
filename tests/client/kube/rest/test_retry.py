"""Requests that are sent again: how often, after how long, and within whose limits.

The client's own limit of its requests.

A server that comes back is asked at once; clocks that are set do no harm.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.events.broadcaster import EventKey, EventWriter, Reference
from policy_sched.client.kube.rest.errors import Unreachable, wait_of
from policy_sched.client.kube.rest.retry import REQUEST_BACKOFF, Recovery, RetryPolicy, TokenBucket
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.client.kube.time.work_queue import SECOND, BackoffState, Clocks, SteadyClock
from policy_sched.testing import FakeClock
from tests.client.kube.stage import Asked, Wire, acted, stage


def test_requests_are_sent_again_soon_and_at_least_every_four_seconds() -> None:
    """A server that is back is noticed, and one that is away is not pestered."""
    pauses = BackoffState(REQUEST_BACKOFF, FakeClock(), Random(1))
    found = [pauses.next() for _ in range(RetryPolicy().tries)]
    assert 0.1 <= found[0] <= 0.2
    assert all(2.0 <= pause <= 4.0 for pause in found[5:])


def test_a_failing_server_gets_eleven_requests() -> None:
    """As client-go does, which tries ten times again."""

    async def fails(_asked: Asked, wire: Wire) -> None:
        await wire.respond(500, {})

    async def play() -> None:
        async with stage(fails) as here, here.api() as api:
            with pytest.raises(ApiError):
                await api.get("/x")
            assert len(here.asked) == 11
            assert sum(here.slept) < 60

    acted(play())


@pytest.mark.parametrize(
    ("seconds", "wait"), [(3, 3.0), (0, None), (-1, None), ("3", None), (900, 300.0)]
)
def test_retry_after_is_respected(seconds: object, wait: float | None) -> None:
    """A number above 0; no wait is longer than five minutes."""
    assert wait_of(ApiError(429, "", "", {"retryAfterSeconds": seconds})) == wait


def test_events_do_not_wait_for_other_requests_nor_others_for_them() -> None:
    """They have a limit of their own, whether they are new or counted."""

    async def yes(_asked: Asked, wire: Wire) -> None:
        await wire.respond(201, {})

    async def play() -> None:
        settings = Settings(qps=1, burst=2)
        async with stage(yes) as here, here.api(settings) as api:
            for _ in range(2):
                await api.get("/x")
            writer = EventWriter(api)
            about = Reference("Pod", "default", "web", "u1")
            for note in "ab":
                writer.say(EventKey(about, "Normal", "R", "A", "me", "me-1", note))
            await writer.drained()
            assert [one.method for one in here.asked] == ["GET", "GET", "POST", "PATCH"]
            assert here.slept == []
            await api.get("/x")
            assert len(here.slept) == 1

    acted(play())


def test_a_burst_then_a_steady_rate() -> None:
    """``burst`` at once, then one every 1/qps seconds, each later than the one before."""
    clock = FakeClock()
    bucket = TokenBucket(clock, qps=10, burst=3)
    assert [bucket.take() for _ in range(5)] == [0, 0, 0, pytest.approx(0.1), pytest.approx(0.2)]
    clock.advance(0.2)
    assert bucket.take() == pytest.approx(0.1)


def test_rest_fills_the_bucket_and_no_more() -> None:
    """After a long rest there are ``burst`` tokens again."""
    clock = FakeClock()
    bucket = TokenBucket(clock, qps=10, burst=2)
    clock.advance(3600)
    assert [bucket.take() for _ in range(3)] == [0, 0, pytest.approx(0.1)]


def test_a_token_that_was_not_used_goes_back() -> None:
    """A request that stops waiting leaves its place to others."""
    bucket = TokenBucket(FakeClock(), qps=1, burst=1)
    bucket.take()
    bucket.take()
    bucket.give_back()
    assert bucket.take() == pytest.approx(1)


def test_no_limit_and_no_sense() -> None:
    """A rate of 0 is no limit; negative ones and empty buckets are refused."""
    bucket = TokenBucket(FakeClock(), qps=0)
    assert [bucket.take() for _ in range(1000)] == [0] * 1000
    with pytest.raises(ValueError, match="burst"):
        TokenBucket(FakeClock(), qps=1, burst=0)


LOST = Unreachable("no", sent=True)


class Waiting:
    """A request that waits for a server, with a sleep that does not end by itself."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.recovery = Recovery(self.clock)

    async def paused(self) -> asyncio.Task[None]:
        """Begin to wait."""
        never = asyncio.Event()
        task = asyncio.create_task(self.recovery.pause(lambda _: never.wait(), 30.0))
        await asyncio.sleep(0)
        return task

    async def over(self, task: asyncio.Task[None]) -> bool:
        """Tell whether the pause has ended; then nothing waits any more."""
        for _ in range(4):
            await asyncio.sleep(0)
        done = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return done


@pytest.mark.parametrize(
    ("error", "seconds", "ends"),
    [
        (LOST, 5.0, True),
        (ApiError(503, "", "away"), 5.0, True),
        (ApiError(429, "", "busy"), 5.0, True),
        (LOST, 0.1, False),  # others were answered meanwhile: it was not away
        (ApiError(404, "", "none"), 5.0, False),  # a refusal is an answer
    ],
)
def test_an_answer_after_an_outage_ends_all_pauses(
    error: Any, seconds: float, *, ends: bool
) -> None:
    """One that comes among others does not: then it is not the server that fails."""

    async def play() -> None:
        here = Waiting()
        here.recovery.reached()
        here.clock.advance(seconds)
        here.recovery.failed(error)
        task = await here.paused()
        here.recovery.reached()
        assert await here.over(task) is ends

    acted(play())


def test_a_request_that_waits_is_sent_when_another_is_answered() -> None:
    """Pauses have grown long; the server is back, and the first request wakes the other."""
    back: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not back:
            return wire.cut()
        return await wire.respond(200, {"path": asked.path})

    async def play() -> None:
        async with stage(script) as here, here.api() as api:
            pausing = asyncio.Event()

            async def sleep(_seconds: float) -> None:
                pausing.set()
                await asyncio.Event().wait()

            here.monotonic.advance(60)
            api.environment = type(api.environment)(
                api.environment.clocks, api.environment.random, sleep
            )
            first = asyncio.create_task(api.get("/first"))
            await pausing.wait()
            back.append("")
            await api.get("/second")
            assert b"/first" in await first

    acted(play())


def test_a_monotonic_clock_ignores_changes_of_the_wall_clock() -> None:
    """An hour back or forth: a second takes a tenth more or less, until both agree again."""
    for jump in (-3600, 3600):
        wall, monotonic = FakeClock(10_000 * SECOND), FakeClock(5 * SECOND)
        clock = SteadyClock(Clocks(wall, monotonic))
        assert clock() == 10_000 * SECOND
        wall.advance(jump)
        assert clock() == 10_000 * SECOND
        for _ in range(100):
            before = clock()
            for one in (wall, monotonic):
                one.advance(1)
            assert abs(clock() - before - SECOND) == SECOND // 10
        for _ in range(100):
            for one in (wall, monotonic):
                one.advance(1000)
            clock()
        assert clock() == wall()
