"""Worker: one thread beside the event loop, for decisions that may take long.

Theory of operation. A call of an extender blocks until the extender responds, and a group of pods
may be tried in a hundred racks for seconds. Such a decision runs in a thread, and the event loop
continues: leases are renewed, requests are served, watches are read, bindings are sent.
From `begin` until `finish` the worker is ``busy``, and the loop's thread leaves the scheduler
alone: its input waits in the inbox (the informers' queue, the results of bindings), so
nothing changes during a decision and no lock is needed. Calls run one at a time. Explanations
run here too, for every profile.
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
"""Seconds after which the worker yields to the event loop's thread (Python's default: 0.005).

A turn of the loop waits that long after each of its system calls.
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
        """Whether a call runs, or its result is not used yet; nothing else uses the scheduler."""
        return self._running is not None

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Run a call. The owner calls `finish` after it used the result."""
        assert not self.busy, "one call at a time"
        sys.setswitchinterval(GIVE_WAY)
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        # A daemon thread: an extender that never responds does not keep the process from ending.
        future = self._running = begun(call)
        future.add_done_callback(lambda _: self._call_soon(self._ended))
        return future

    def finish(self) -> None:
        """Mark the result as used; callers of `settled` run before the next call."""
        self._running = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def settled(self) -> None:
        """Wait until no call runs; none begins before the caller awaits again."""
        while self.busy:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call after the current one; it runs to its end even if its caller is cancelled."""
        await self.settled()
        ended = asyncio.wrap_future(self.begin(call))

        def finish(future: asyncio.Future[T]) -> None:
            if not future.cancelled():
                future.exception()  # retrieved, in case the caller was cancelled
            self.finish()

        ended.add_done_callback(finish)
        return await asyncio.shield(ended)

    def run_beside(self, call: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a call that does not use the scheduler, and then ``done`` in the event loop.

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
        """Run a function in the event loop's thread; in that thread, at once."""
        if self._loop is None or get_ident() == self._thread:
            act()
        else:
            self._call_soon(act)

    def _call_soon(self, act: Callable[[], None]) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, and with it the need
            self._loop.call_soon_threadsafe(act)


def in_event_loop() -> bool:
    """Return whether this thread runs an event loop, which a blocking call would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
