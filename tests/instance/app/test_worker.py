"""The worker: one call at a time in a thread, while the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Event, current_thread, main_thread

import pytest

from policy_sched.instance.app.worker import Worker, in_event_loop

LIMIT = 60.0
"""Seconds after which a test hangs."""


class Scene:
    """A worker, a call that waits for an answer, and the order of events."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.worker = Worker(self.woken.set)
        self.answer = Event()
        self.log: list[str] = []

    def call(self) -> int:
        """Wait for the answer."""
        self.log.append(f"begun {current_thread() is main_thread()}")
        self.answer.wait(LIMIT)
        self.log.append("ended")
        return 7


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a test with a scene."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Scene]:
        one = Scene()
        try:
            yield one
        finally:
            one.answer.set()

    async def timed() -> None:
        async with asyncio.timeout(LIMIT), scene() as one:
            await play(one)

    asyncio.run(timed())


def test_the_loop_goes_on_until_the_owner_is_woken() -> None:
    """The worker has the scheduler until its owner has used the result."""

    async def play(scene: Scene) -> None:
        worker = scene.worker
        future = worker.begin(scene.call)
        assert worker.busy
        assert not future.done()
        scene.answer.set()
        await scene.woken.wait()
        assert (worker.busy, future.result()) == (True, 7)
        worker.finish()
        assert not worker.busy
        assert scene.log == ["begun False", "ended"]

    played(play)


def test_what_a_call_raises_its_owner_gets() -> None:
    """Whether it is begun or awaited."""

    async def play(scene: Scene) -> None:
        def fail() -> int:
            raise ValueError("broken")

        future = scene.worker.begin(fail)
        await scene.woken.wait()
        scene.worker.finish()
        with pytest.raises(ValueError, match="broken"):
            future.result()
        with pytest.raises(ValueError, match="broken"):
            await scene.worker.run(fail)
        assert not scene.worker.busy

    played(play)


def test_a_call_that_waits_goes_before_the_next_decision() -> None:
    """An owner that begins a decision in every turn of the loop does not starve explanations."""

    async def play(scene: Scene) -> None:
        worker = scene.worker
        worker.begin(scene.call)
        explaining = asyncio.create_task(worker.run(lambda: "explained"))
        await asyncio.sleep(0)  # it begins to wait
        scene.answer.set()
        await scene.woken.wait()
        worker.finish()
        await asyncio.sleep(0)  # the owner's next turn
        assert worker.busy
        assert await explaining == "explained"
        await worker.settled()
        assert not worker.busy

    played(play)


def test_a_call_ends_though_its_caller_was_cancelled() -> None:
    """The scheduler is not used by others before that."""

    async def play(scene: Scene) -> None:
        running = asyncio.create_task(scene.worker.run(scene.call))
        await asyncio.sleep(0)  # it is begun
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert scene.worker.busy
        scene.answer.set()
        await scene.worker.settled()
        assert scene.log == ["begun False", "ended"]

    played(play)


def test_what_a_call_wants_of_the_loop_is_done_in_its_thread() -> None:
    """In order; in the loop's own thread at once."""

    async def play(scene: Scene) -> None:
        worker, log = scene.worker, scene.log

        def say(what: str) -> None:
            worker.call_in_loop(lambda: log.append(f"{what} {current_thread() is main_thread()}"))

        say("before")
        assert log == ["before True"]
        await worker.run(lambda: [say("first"), say("second")])
        assert log[1:] == ["first True", "second True"]
        say("after")
        assert log[3:] == ["after True"]

    played(play)


def test_other_calls_run_beside_it() -> None:
    """A binding by an extender does not wait for a decision; its answer comes in the loop."""

    async def play(scene: Scene) -> None:
        done = asyncio.Event()
        scene.worker.begin(scene.call)
        scene.worker.run_beside(lambda: scene.log.append("bound"), done.set)
        await done.wait()
        assert "bound" in scene.log
        assert "ended" not in scene.log

    played(play)


def test_without_an_event_loop_a_call_beside_it_is_a_call() -> None:
    """A simulated clock has no threads."""
    log: list[str] = []
    assert not in_event_loop()
    Worker(lambda: None).run_beside(lambda: log.append("bound"), lambda: log.append("done"))
    assert log == ["bound", "done"]


def test_an_answer_after_the_end_is_dropped() -> None:
    """An extender that answers after the event loop has ended changes nothing."""

    async def begin() -> tuple[Scene, Future[int]]:
        scene = Scene()
        return scene, scene.worker.begin(scene.call)

    scene, future = asyncio.run(begin())
    scene.answer.set()
    assert future.result(LIMIT) == 7
    assert not scene.woken.is_set()
