"""Writes events beside everything else: what cannot be written in time is lost, as events are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.events.correlator import REFRESH, EventKey, EventSeries, Write
from policy_sched.client.kube.rest import (
    MERGE_PATCH,
    NOT_FOUND,
    Api,
    Begin,
    KeyedExecutor,
    at_once,
    collection_path,
    object_path,
)
from policy_sched.client.kube.time import SECOND, WorkQueue
from policy_sched.errors import ClusterError

EVENT: Final = ("events.k8s.io/v1", "Event")
QUEUE: Final = 5000
"""Events that wait; what comes beyond is lost (client-go: 1000, and a goroutine for each)."""
TOGETHER: Final = 64
"""Events that are written at the same time."""
TRIES: Final = 12
PAUSE: Final = 10.0
"""Seconds between two tries to write an event (client-go: 12 tries, 10 s)."""
LOOK: Final = 10.0
"""Seconds between two looks for series that have ended."""
AT_A_TIME: Final = 1000
"""Things that are forgotten in one turn of the event loop."""

Lost = Callable[[str, ClusterError], None]
"""Told of an event that could not be written: its object, and why."""


def ignore_loss(_about: str, _error: ClusterError) -> None:
    """Ignore the failure."""


class EventWriter:
    """Says things about objects; ``run`` as a task ends and refreshes series."""

    def __init__(self, api: Api, told: Lost = ignore_loss, begin: Begin = at_once) -> None:
        self.lost = 0
        self.waiting = 0
        self._api = api
        self._told = told
        self._series = EventSeries()
        self._lanes = KeyedExecutor(begin)
        self._room = asyncio.Semaphore(TOGETHER)
        self.queue = WorkQueue("events", api.environment.clocks.monotonic)

    def say(self, said: EventKey) -> None:
        """Say something; it is written soon."""
        write = self._series.say(said, self._api.environment.clocks.wall())
        if write is not None:
            self._queue(write)

    async def run(self) -> None:
        """Look after series until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._finish())
            tasks.create_task(self._refresh())

    async def drained(self) -> None:
        """Wait until nothing waits."""
        await self._lanes.drained()

    async def cancel(self) -> None:
        """Give up what waits; it is lost."""
        await self._lanes.cancel()
        self.waiting = 0
        self.queue.given_up()

    async def _finish(self) -> None:
        while True:
            await self._api.environment.sleep(LOOK)
            ended = self._series.finish(self._api.environment.clocks.wall())
            for number, write in enumerate(ended, 1):
                if write is not None:
                    self._queue(write)
                if not number % AT_A_TIME:
                    await asyncio.sleep(0)

    async def _refresh(self) -> None:
        while True:
            await self._api.environment.sleep(REFRESH / SECOND)
            for write in self._series.refresh():
                self._queue(write)

    def _queue(self, write: Write) -> None:
        """Write an event after what is under way for the same one, if there is room to wait."""
        if self.waiting >= QUEUE:
            self.lost += 1
            return
        self.waiting += 1
        added = self.queue.added()
        self._lanes.add(f"{write.namespace}/{write.name}", partial(self._take, write, added))

    async def _take(self, write: Write, added: int) -> None:
        try:
            async with self._room:
                number = self.queue.begun(added)
                try:
                    await self._persist(write)
                finally:
                    self.queue.done(number)
        finally:
            self.waiting -= 1

    async def _persist(self, write: Write) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                await self._send(write)
            except ClusterError as error:
                refused = isinstance(error, ApiError) and 400 <= error.code < 500
                if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                    return
                if refused or not tries_left:
                    self.lost += 1
                    self._told(f"{write.namespace}/{write.event['regarding']['name']}", error)
                    return
            else:
                return
            self.queue.retries += 1
            await self._api.environment.sleep(PAUSE)

    async def _send(self, write: Write) -> None:
        if write.series is not None:
            path = object_path(EVENT, write.namespace, write.name)
            patch = {"series": write.series}
            try:
                await self._api.request("PATCH", path, patch, content_type=MERGE_PATCH, aside=True)
            except ApiError as error:
                if error.code != NOT_FOUND:
                    raise
            else:
                return
        path = collection_path(EVENT, write.namespace)
        await self._api.request("POST", path, write.event, aside=True)
