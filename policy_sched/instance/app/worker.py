"""Worker: one thread beside the event loop, for decisions that may take long.

Theory of operation. A decision that asks an extender blocks for as long as the extender takes, and
one that tries a group of pods in a hundred racks may take seconds. It runs in a thread, so that the
event loop goes on: leases are renewed, requests are answered, watches are read, bindings are sent.
From `begin` until `finish` the worker is ``busy``, and the loop's thread leaves the scheduler
alone: what comes for it waits in the inbox (the informers' queue, the answers of bindings), so
nothing changes under a decision and no lock is needed. There is one call at a time. Explanations
run here too, whatever the profile.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, TypeVar

from policy_sched.client import begun

T = TypeVar("T")

GIVE_WAY: Final = 0.0005
"""Seconds after which the worker lets the event loop's thread go on (Python: 0.005).

A turn of the loop waits so long after each call of the system that it makes.
"""


class Worker:
    """Runs calls in a thread; ``ended`` is called in the event loop's thread after each."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._running: Future[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def busy(self) -> bool:
        """Whether the scheduler is left alone: a call runs, or its result was not used yet."""
        return self._running is not None

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Run a call. The owner calls `finish` when it has used the result."""
        assert not self.busy, "one call at a time"
        sys.setswitchinterval(GIVE_WAY)
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        # A daemon thread: an extender that never answers does not keep the process from ending.
        future = self._running = begun(call)
        future.add_done_callback(lambda _: self._call_soon(self._ended))
        return future

    def finish(self) -> None:
        """Note that the result was used; callers of `settled` go first now."""
        self._running = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def settled(self) -> None:
        """Wait until no call runs; until the caller awaits again none will."""
        while self.busy:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call when no other one runs; it goes on to its end if its caller is cancelled."""
        await self.settled()
        ended = asyncio.wrap_future(self.begin(call))

        def finish(future: asyncio.Future[T]) -> None:
            if not future.cancelled():
                future.exception()  # counts as read, if the caller was cancelled
            self.finish()

        ended.add_done_callback(finish)
        return await asyncio.shield(ended)

    def run_beside(self, call: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a call that has nothing to do with the scheduler, and ``done`` in the loop after it.

        Without an event loop both run at once.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            call()
            done()
            return
        self._loop, self._thread = loop, get_ident()

        def end() -> None:
            done()
            self._ended()

        begun(call).add_done_callback(lambda _: self._call_soon(end))

    def call_in_loop(self, act: Callable[[], None]) -> None:
        """Run something in the event loop's thread: at once if this is it."""
        if self._loop is None or get_ident() == self._thread:
            act()
        else:
            self._call_soon(act)

    def _call_soon(self, act: Callable[[], None]) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, and with it the need
            self._loop.call_soon_threadsafe(act)


def in_event_loop() -> bool:
    """Tell whether this thread runs an event loop, which a call would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
