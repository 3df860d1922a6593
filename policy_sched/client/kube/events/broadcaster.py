"""Events: equal ones become a series; all are written in the background, some at a time.

An event that cannot be written in time is dropped. A series is written again every half hour, and
for the last time six minutes after its last event.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from policy_sched.client.apimachinery import ApiError, micro_timestamp
from policy_sched.client.kube import rest
from policy_sched.client.kube.time import SECOND, WorkQueueMetrics
from policy_sched.errors import ClusterError

FINISH: Final = 6 * 60 * SECOND
"""A series ends when no equal event came for so long."""
MOST: Final = 100_000
"""Events of late; beyond that the oldest end early."""
REFRESH: Final = 30 * 60 * SECOND
"""How often a continued series is written."""
NOTE_LIMIT: Final = 1024
"""The longest note, in bytes (events.k8s.io validation)."""
NAME_LIMIT: Final = 253
"""The longest name of an object (a DNS subdomain)."""

Plain = dict[str, Any]
_encode: Final = msgspec.json.Encoder().encode


class Reference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The object that an event is about, as it was: client-go names its version, too."""

    kind: str
    namespace: str
    name: str
    uid: str
    # Written always: only what a plain default says is omitted.
    api_version: str = msgspec.field(default_factory=lambda: "v1")
    resource_version: str = ""


class EventKey(msgspec.Struct, frozen=True, gc=False):
    """An event about an object; the note is what may differ within a series."""

    regarding: Reference
    type: str
    reason: str
    action: str
    controller: str
    instance: str
    note: str
    related: Reference | None = None

    @property
    def series(self) -> tuple[object, ...]:
        """What the events of a series have in common."""
        return (
            self.regarding,
            self.type,
            self.reason,
            self.action,
            self.controller,
            self.instance,
            self.related,
        )


class Write(msgspec.Struct, gc=False):
    """An event to write: as a new object, or its series into the one that there is.

    ``event`` is the whole of it, as JSON: thousands of events may wait after a burst. ``about``:
    the name of the object that it is about.
    """

    namespace: str
    name: str
    about: str
    event: bytes
    series: Plain | None = None


class _Series(msgspec.Struct):
    """An event that came several times; it is made when it is written."""

    key: EventKey
    first: int
    last: int
    count: int = 1

    def write(self) -> Write:
        series = None
        if self.count > 1:
            series = {"count": self.count, "lastObservedTime": micro_timestamp(self.last)}
        return _write(self.key, self.first, series)


class EventSeries:
    """All events of late, at most so many.

    Of an event that came once only the hash of what a series has in common is kept, with its time:
    a burst of pods that fit nowhere leaves little behind, for six minutes.
    """

    def __init__(self, most: int = MOST) -> None:
        self._series: OrderedDict[int, int | _Series] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._series)

    def say(self, key: EventKey, now: int) -> Write | None:
        """Record an event; return what is to be written now, if anything. ``now``: wall time."""
        same = hash(key.series)
        series = self._series.get(same)
        if series is None:
            self._series[same] = now
            return _write(key, now)
        self._series.move_to_end(same)
        if isinstance(series, int):
            series = self._series[same] = _Series(key, series, now)
        series.count += 1
        series.last = now
        return series.write() if series.count == 2 else None

    def refresh(self) -> list[Write]:
        """Return the series that go on."""
        every = self._series.values()
        return [series.write() for series in every if isinstance(series, _Series)]

    def finish(self, now: int) -> Iterator[Write | None]:
        """Forget events that did not come for a while; yield the series among them, None otherwise.

        The caller may pause the iteration and resume it later.
        """
        while self._series:
            oldest = next(iter(self._series.values()))
            last = oldest if isinstance(oldest, int) else oldest.last
            if last >= now - FINISH and len(self._series) <= self._most:
                return
            self._series.popitem(last=False)
            yield None if isinstance(oldest, int) else oldest.write()


def cut(note: str) -> str:
    """Return a note that is short enough."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."


def _name(about: Reference, now: int) -> str:
    """Return an event's name: the object's and the time, or a UUID where that is too long."""
    name = f"{about.name}.{now:x}"
    if len(name) <= NAME_LIMIT:
        return name
    return str(uuid5(NAMESPACE_OID, f"{about.uid}.{name}"))


def _write(key: EventKey, now: int, series: Plain | None = None) -> Write:
    """Return how an event of that time is written."""
    about = key.regarding
    namespace, name = about.namespace or "default", _name(about, now)
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_timestamp(now),
        "reportingController": key.controller,
        "reportingInstance": key.instance,
        "action": key.action,
        "reason": key.reason,
        "regarding": about,
        "note": key.note if len(key.note) <= NOTE_LIMIT // 4 else cut(key.note),
        "type": key.type,
    }
    if key.related is not None:
        event["related"] = key.related
    if series is not None:
        event["series"] = series
    return Write(namespace, name, about.name, _encode(event), series)


EVENT: Final = ("events.k8s.io/v1", "Event")
QUEUE: Final = 25_000
"""Events that wait, some 600 bytes each; what comes beyond is lost.

client-go's queue holds 1000, but an event leaves it for a goroutine of its own: a burst loses none.
"""
TOGETHER: Final = rest.TOGETHER_ASIDE
"""Events that are written at the same time."""
GATHERING: Final = 0.5
"""Seconds in which events are gathered, which then go to the server in few writes."""
UNREAD: Final = 256
"""Events that are gathered before they are made, so that one turn does not make too many."""
TRIES: Final = 12
PAUSE: Final = 10.0
"""Seconds between two tries to write an event (client-go: 12 tries, 10 s)."""
LOOK: Final = 10.0
"""Seconds between two looks for series that have ended."""
AT_A_TIME: Final = 1000
"""Series that are dropped in one turn of the event loop."""

Lost = Callable[[str, ClusterError], None]
"""Called for an event that could not be written: its object and the error."""


def ignore_loss(_about: str, _error: ClusterError) -> None:
    """Ignore the failure."""


class EventWriter:
    """Says things about objects; ``run`` as a task ends and refreshes series."""

    def __init__(
        self, api: rest.Api, lost: Lost = ignore_loss, begin: rest.Begin = rest.at_once
    ) -> None:
        self.lost = 0
        self.waiting = 0
        self._api = api
        self._lost = lost
        self._series = EventSeries()
        self._lanes = rest.KeyedExecutor()
        self._begin_in_loop = begin
        self._said: deque[tuple[EventKey, int, int]] = deque()
        """With the time of each, since 1970 and of the monotonic clock."""
        self._gathered: deque[tuple[Write, int]] = deque()
        self._gathering: asyncio.Task[None] | None = None
        self._due = False
        """Whether what is gathered goes to the server as soon as there is room."""
        self._under_way = 0
        self.queue = WorkQueueMetrics("events", api.environment.clocks.monotonic)

    def say(self, key: EventKey) -> None:
        """Say something; it is written soon."""
        clocks = self._api.environment.clocks
        self._said.append((key, clocks.wall(), clocks.monotonic()))
        self._begin_in_loop(self._gather)

    async def run(self) -> None:
        """Refresh and end series until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._finish())
            tasks.create_task(self._refresh())

    async def drained(self) -> None:
        """Write what is gathered, and wait until nothing waits."""
        self._stop_gathering()
        self._write_gathered()
        await self._lanes.drained()

    async def cancel(self) -> None:
        """Drop the queued events."""
        self._stop_gathering()
        self._said.clear()
        self._gathered.clear()
        await self._lanes.cancel()
        self.waiting = self._under_way = 0
        self.queue.given_up()

    async def _finish(self) -> None:
        while True:
            await self._api.environment.sleep(LOOK)
            ended = self._series.finish(self._api.environment.clocks.wall())
            for number, write in enumerate(ended, 1):
                if write is not None:
                    self._queue_later(write)
                if not number % AT_A_TIME:
                    await asyncio.sleep(0)

    async def _refresh(self) -> None:
        while True:
            await self._api.environment.sleep(REFRESH / SECOND)
            for write in self._series.refresh():
                self._queue_later(write)

    def _queue_later(self, write: Write) -> None:
        """Write what continues or ends a series, with what is gathered next."""
        self._queue(write, self._api.environment.clocks.monotonic())
        self._gather()

    def _queue(self, write: Write, added: int) -> None:
        """Keep an event until it is written, if there is room to wait."""
        if self.waiting >= QUEUE:
            self.lost += 1
            return
        self.waiting += 1
        self.queue.added()
        self._gathered.append((write, added))

    def _gather(self) -> None:
        """Write what was said before long; meanwhile nothing is made of it."""
        if self._due or len(self._said) >= UNREAD:
            self._queue_said()
        if self._gathering is None and not self._due:
            self._gathering = asyncio.get_running_loop().create_task(self._write_later())

    def _queue_said(self) -> None:
        """Make of what was said what is to be written."""
        said = self._said
        while said:
            key, now, added = said.popleft()
            write = self._series.say(key, now)
            if write is not None:
                self._queue(write, added)

    async def _write_later(self) -> None:
        await self._api.environment.sleep(GATHERING)
        self._gathering = None
        self._write_gathered()

    def _stop_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _write_gathered(self) -> None:
        """Begin as many as there is room for, each after what is under way for the same event."""
        self._queue_said()
        gathered, lanes = self._gathered, self._lanes
        while gathered and self._under_way < TOGETHER:
            write, added = gathered.popleft()
            self._under_way += 1
            start = None if write.series is not None else partial(self._begin, write, added)
            lanes.add((write.namespace, write.name), partial(self._take, write, added), start)
        self._due = bool(gathered)

    def _ended(self) -> None:
        """An event is written, or lost; the next ones are begun several at a time."""
        self.waiting -= 1
        self._under_way -= 1
        if self._due and self._under_way <= TOGETHER // 2:
            self._write_gathered()

    def _begin(self, write: Write, added: int, ended: rest.Ended) -> bool:
        """Send a new event without waiting, if that is possible now."""

        def responded(failed: ClusterError | None) -> None:
            if failed is not None:
                ended(partial(self._take, write, added, number, failed))
                return
            self.queue.done(number)
            self._ended()
            ended(None)

        path = rest.collection_path(EVENT, write.namespace)
        if not self._api.begin("POST", path, write.event, responded, aside=True):
            return False
        number = self.queue.begun(added)
        return True

    async def _take(
        self, write: Write, added: int, number: int = 0, failed: ClusterError | None = None
    ) -> None:
        """Write an event; ``number`` and ``failed`` are those of the try that `_begin` made."""
        number = number or self.queue.begun(added)
        try:
            await self._persist(write, failed)
        finally:
            self.queue.done(number)
            self._ended()

    async def _persist(self, write: Write, failed: ClusterError | None) -> None:
        for tries_left in reversed(range(TRIES)):
            first, failed = failed, None
            try:
                await self._send(write, first)
            except ClusterError as error:
                refused = isinstance(error, ApiError) and 400 <= error.code < 500
                if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                    return
                if refused or not tries_left:
                    self.lost += 1
                    self._lost(f"{write.namespace}/{write.about}", error)
                    return
            else:
                return
            self.queue.retries += 1
            await self._api.environment.sleep(PAUSE)

    async def _send(self, write: Write, failed: ClusterError | None) -> None:
        if write.series is not None:
            path = rest.object_path(EVENT, write.namespace, write.name)
            patch = {"series": write.series}
            try:
                await self._api.request(
                    "PATCH", path, patch, content_type=rest.MERGE_PATCH, aside=True
                )
            except ApiError as error:
                if error.code != rest.NOT_FOUND:
                    raise
            else:
                return
        path = rest.collection_path(EVENT, write.namespace)
        await self._api.request("POST", path, write.event, aside=True, failed=failed)
