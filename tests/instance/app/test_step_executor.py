"""The workbench: one piece of work at a time, which others need not wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from threading import Event, current_thread, main_thread

import pytest

from policy_sched.framework.runtime.coroutine import aside, pause
from policy_sched.instance.app.step_executor import StepExecutor

LIMIT = 60.0
"""Seconds after which something hangs."""


class Scene:
    """A workbench, somebody who is asked, and what happened in order."""

    def __init__(self) -> None:
        self.asks = True
        self.woken = asyncio.Event()
        self.bench = StepExecutor(lambda: self.asks, self.woken.set)
        self.answer = Event()
        self.log: list[str] = []

    def work(self) -> int:
        """Ask, and go on."""
        self.log.append("begun")
        aside(lambda: self.answer.wait(LIMIT))
        self.log.append("ended")
        return 7

    async def ended(self) -> None:
        """Answer, and wait until the piece has ended."""
        self.answer.set()
        await self.woken.wait()


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a play."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Scene]:
        one = Scene()
        try:
            yield one
        finally:
            one.answer.set()
            one.bench.close()

    async def timed() -> None:
        async with asyncio.timeout(LIMIT), scene() as one:
            await play(one)

    asyncio.run(timed())


def test_where_nobody_is_asked_a_piece_is_a_call() -> None:
    """In the same thread, with nothing in between; and again so when that changes."""

    async def play(scene: Scene) -> None:
        seen = []
        for asks in (False, True, False):
            scene.asks = asks
            assert scene.bench.step(lambda: seen.append(current_thread()) or 1) == 1  # type: ignore[func-returns-value]
        assert [thread is main_thread() for thread in seen] == [True, False, True]

    played(play)


def test_a_step_that_is_set_aside_is_taken_up_when_it_has_ended() -> None:
    """Until then there is nothing to be had of it; then its owner is woken."""

    async def play(scene: Scene) -> None:
        bench = scene.bench
        assert [bench.step(scene.work), bench.busy, bench.step(scene.work)] == [None, True, None]
        await scene.ended()
        assert [bench.busy, bench.step(scene.work)] == [False, 7]
        assert scene.log == ["begun", "ended"]

    played(play)


def test_what_a_step_raises_its_owner_gets() -> None:
    """Whether it was set aside or not."""

    async def play(scene: Scene) -> None:
        def fail() -> int:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            scene.bench.step(fail)
        assert scene.bench.step(lambda: scene.work() + fail()) is None
        await scene.ended()
        with pytest.raises(ValueError, match="broken"):
            scene.bench.step(scene.work)

    played(play)


def test_who_waits_comes_before_the_next_step() -> None:
    """However soon that would be begun: steps that ask again and again keep nobody out."""

    async def play(scene: Scene) -> None:
        bench = scene.bench

        async def wait() -> str:
            while bench.busy:
                await bench.change()
            return await bench.do(lambda: f"after {len(scene.log)}")

        assert bench.step(scene.work) is None
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)  # it begins to wait
        await scene.ended()
        scene.answer.clear()
        assert bench.step(scene.work) == 7
        assert await waiting == "after 2"

    played(play)


def test_a_piece_ends_though_nobody_waits_for_it_any_more() -> None:
    """The scheduler is left whole, and free for others."""

    async def play(scene: Scene) -> None:
        asked = asyncio.create_task(scene.bench.do(scene.work))
        await asyncio.sleep(0)  # it is begun
        assert scene.bench.busy
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert scene.bench.busy
        await scene.ended()
        assert scene.log == ["begun", "ended"]
        assert not scene.bench.busy

    played(play)


def test_what_a_piece_wants_of_the_loop_is_done_in_its_thread() -> None:
    """In order, as soon as the piece is set aside; elsewhere at once."""

    async def play(scene: Scene) -> None:
        bench, log = scene.bench, scene.log

        def say(what: str) -> None:
            bench.call_in_loop(lambda: log.append(f"{what} {current_thread() is main_thread()}"))

        def work() -> int:
            say("first")
            say("second")
            scene.work()
            say("third")
            return 0

        assert bench.step(work) is None
        assert log == ["begun", "first True", "second True"]
        say("meanwhile")
        await scene.ended()
        assert log[3:] == ["meanwhile True", "ended", "third True"]

    played(play)


def test_long_work_goes_on_by_itself_after_a_pause() -> None:
    """Where it says so the loop has its turn, if a slice of time is over."""

    async def play(scene: Scene) -> None:
        slices = iter((True, False, True))
        woken, turns = asyncio.Event(), []

        def begun() -> Callable[[], bool]:
            turns.append(len(scene.log))
            over = next(slices)
            return lambda: over

        def work() -> int:
            for i in range(3):
                scene.log.append(str(i))
                pause()
            return 3

        bench = StepExecutor(lambda: True, woken.set, begun)
        assert bench.step(work) is None
        await woken.wait()
        assert bench.step(work) == 3
        assert turns == [0, 1]
        bench.close()

    played(play)


def test_what_is_given_up_ends_quietly() -> None:
    """The answer comes to nobody, even after the event loop has ended."""
    scenes = []

    async def play(scene: Scene) -> None:
        scenes.append(scene)
        assert scene.bench.step(scene.work) is None

    played(play)
    assert scenes[0].log == ["begun"]
