"""A server that comes back is asked at once; clocks that are set do no harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.rest.errors import Unreachable
from policy_sched.client.kube.rest.retry import Recovery
from policy_sched.client.kube.time.work_queue import SECOND, Clocks, SteadyClock
from policy_sched.testing import FakeClock
from tests.client.kube.stage import Asked, Wire, acted, stage

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
