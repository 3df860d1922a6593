"""A console in a thread, for browsers that are driven from the test's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from policy_sched.console import Server, Source, serving


@dataclass
class Running:
    """A console that is served; ``loop`` is the event loop of its thread."""

    server: Server
    source: Source
    loop: asyncio.AbstractEventLoop

    def call(self, act: Callable[[], object]) -> None:
        """Run a function in the thread of the console, and wait for it."""
        done = Event()

        def run() -> None:
            act()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(30)


@contextmanager
def served(make: Callable[[], Source]) -> Iterator[Running]:
    """Serve a console within the context; ``make`` runs in its thread."""
    ready, ended = Event(), asyncio.Event()
    found: list[Running] = []

    async def run() -> None:
        source = make()
        async with serving(source) as server:
            found.append(Running(server, source, asyncio.get_running_loop()))
            ready.set()
            await ended.wait()

    thread = Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60), "the console starts"
        yield found[0]
    finally:
        if found:
            found[0].loop.call_soon_threadsafe(ended.set)
        thread.join(30)
