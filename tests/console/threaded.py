"""A console in a thread, for browsers that are driven from the test's own thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from policy_sched.console import ClusterSource, ConsoleServer, RunningSource, serving
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.profiles.reload import PolicyFiles
from tests.instance.app.test_cluster_instance import node


@dataclass
class Running:
    """A console that is served; ``loop`` is the event loop of its thread."""

    server: ConsoleServer
    source: ClusterSource
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
def served(make: Callable[[], ClusterSource], results: Sequence[str] = ()) -> Iterator[Running]:
    """Serve a console within the context; ``make`` runs in its thread."""
    ready, ended = Event(), asyncio.Event()
    items: list[Running] = []

    async def run() -> None:
        source = make()
        async with serving(source, results) as server:
            items.append(Running(server, source, asyncio.get_running_loop()))
            ready.set()
            await ended.wait()

    thread = Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60), "the console starts"
        yield items[0]
    finally:
        if items:
            items[0].loop.call_soon_threadsafe(ended.set)
        thread.join(30)


def embedded() -> ClusterSource:
    """Return a scheduler on an embedded cluster of two nodes, which runs as long as the loop."""
    instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, lambda _record: None)
    for name in ("a", "b"):
        instance.cluster.apply(node(name))
    source = RunningSource(instance, "embedded cluster")
    driving = asyncio.get_running_loop().create_task(_drive(instance))
    instance.wakes(lambda: driving)  # which holds the task, too
    return source


async def _drive(instance: EmbeddedInstance) -> None:
    while True:
        instance.step()
        await asyncio.sleep(0.01)
