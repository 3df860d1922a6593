"""Writes events beside everything else: what cannot be written in time is lost, as events are."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from policy_sched.client.embedded.api_error import ApiError
from policy_sched.client.kube.answers import NOT_FOUND
from policy_sched.client.kube.api import MERGE_PATCH, Api
from policy_sched.client.kube.backoff import SECOND
from policy_sched.client.kube.event_series import FINISH, REFRESH, EventSeries, Said, Write
from policy_sched.client.kube.paths import collection_path, object_path
from policy_sched.errors import ClusterError

EVENT: Final = ("events.k8s.io/v1", "Event")
QUEUE: Final = 1000
"""Events that wait; what comes beyond is lost (client-go: 1000)."""
TRIES: Final = 12
PAUSE: Final = 10.0
"""Seconds between two tries to write an event (client-go: 12 tries, 10 s)."""


class EventWriter:
    """Says things about objects. ``run`` it as a task."""

    def __init__(self, api: Api) -> None:
        self.lost = 0
        self._api = api
        self._series = EventSeries()
        self._waiting: deque[Write] = deque()
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def say(self, said: Said) -> None:
        """Say something; it is written soon."""
        self._queue([self._series.say(said, self._api.chance.clocks.wall())])

    async def run(self) -> None:
        """Write what is said until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.write())
            tasks.create_task(self._finish())
            tasks.create_task(self._refresh())

    async def write(self) -> None:
        """Write what waits, and what will."""
        while True:
            await self._awake.wait()
            self._awake.clear()
            while self._waiting:
                await self._persist(self._waiting.popleft())
            self._idle.set()

    async def drained(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    async def _finish(self) -> None:
        while True:
            await self._api.chance.sleep(FINISH / SECOND)
            self._queue(self._series.finish(self._api.chance.clocks.wall()))

    async def _refresh(self) -> None:
        while True:
            await self._api.chance.sleep(REFRESH / SECOND)
            self._queue(self._series.refresh())

    def _queue(self, writes: list[Write | None] | list[Write]) -> None:
        for write in writes:
            if write is None:
                continue
            if len(self._waiting) >= QUEUE:
                self.lost += 1
                continue
            self._waiting.append(write)
            self._idle.clear()
            self._awake.set()

    async def _persist(self, write: Write) -> None:
        for attempt in range(TRIES):
            try:
                await self._send(write)
            except ApiError as error:
                if 400 <= error.code < 500:
                    self.lost += error.reason != "AlreadyExists"
                    return
            except ClusterError:
                pass
            else:
                return
            if attempt < TRIES - 1:
                await self._api.chance.sleep(PAUSE)
        self.lost += 1

    async def _send(self, write: Write) -> None:
        if write.series is not None:
            path = object_path(EVENT, write.namespace, write.name)
            patch = {"series": write.series}
            try:
                await self._api.request("PATCH", path, patch, content_type=MERGE_PATCH)
            except ApiError as error:
                if error.code != NOT_FOUND:
                    raise
            else:
                return
        path = collection_path(EVENT, write.namespace)
        await self._api.request("POST", path, write.event)
