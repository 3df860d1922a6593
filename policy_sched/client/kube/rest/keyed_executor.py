"""KeyedExecutor: what concerns one object is done in order, what concerns others is done beside it.

Work may be added in another thread while the event loop's waits for it; ``begin`` then sees to it
that lanes begin in the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial

Work = Callable[[], Awaitable[None]]
Ended = Callable[[Work | None], None]
"""Told that what was started has ended, and of the work that continues it, if any."""
Start = Callable[[Ended], bool]
"""Starts work without a task, and returns whether it could; `Ended` is called later, once."""
Begin = Callable[[Callable[[], None]], None]
"""Does something in the event loop's thread, now or soon."""


def at_once(act: Callable[[], None]) -> None:
    """Do it now: this is the event loop's thread."""
    act()


class KeyedExecutor:
    """Work by key. Work that raises ends the lane of its key; `check` raises it to the owner."""

    def __init__(self, begin: Begin = at_once) -> None:
        self._begin = begin
        self._waiting: dict[Hashable, list[Work]] = {}
        """Behind what is under way; hardly ever more than one, and a deque takes 600 bytes."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._drained: list[asyncio.Future[None]] = []
        self._broken: list[BaseException] = []

    @property
    def busy(self) -> int:
        """KeyedExecutor on which something is going on."""
        return len(self._waiting)

    def add(self, key: Hashable, work: Work, start: Start | None = None) -> None:
        """Do something after what is under way for the same key.

        ``start``: how it is done without a task, if nothing is under way.
        """
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(work)
            return
        self._waiting[key] = []
        self._begin(partial(self._open, key, work, start))

    def _open(self, key: Hashable, work: Work, start: Start | None) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return  # cancelled
        if start is None or not start(partial(self._ended, key)):
            waiting.insert(0, work)
            self._drive_on(key)

    def _ended(self, key: Hashable, more: Work | None) -> None:
        """Continue a lane whose first work was done without a task."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return  # cancelled
        if more is not None:
            waiting.insert(0, more)
        if waiting:
            self._drive_on(key)
        else:
            self._close(key)

    def _close(self, key: Hashable) -> None:
        del self._waiting[key]
        if not self._waiting:
            for waiter in self._drained:
                if not waiter.done():
                    waiter.set_result(None)
            self._drained.clear()

    def _drive_on(self, key: Hashable) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._drive(key)))

    def check(self) -> None:
        """Raise what work has raised."""
        if self._broken:
            raise self._broken.pop(0)

    async def drained(self) -> None:
        """Wait until nothing is under way."""
        while self._waiting or self._tasks:
            if self._tasks:
                await asyncio.wait(self._tasks)
                continue
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    async def cancel(self) -> None:
        """Cancel all running work."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.difference_update(tasks)  # those that had not begun did not end by themselves
        self._waiting.clear()

    async def _drive(self, key: Hashable) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                await waiting.pop(0)()
        except Exception as error:  # noqa: BLE001 - reported to the owner
            self._broken.append(error)
        finally:
            self._close(key)
            task = asyncio.current_task()
            assert task is not None, "work is driven by a task"
            self._tasks.discard(task)
