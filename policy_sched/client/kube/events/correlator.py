"""What is said about objects, counted: events of events.k8s.io/v1 and their series.

Theory of operation, as client-go's recorder has it. The first time something is said it is an
event of its own. The second time, a series begins and is written; after that it is only counted,
and written again every half hour, and for the last time when nothing was said for six minutes.
The note is no part of what makes two events the same: a series keeps its first one. The version of
the object is: what is said of a pod that has changed since is said anew.

Most things are said once, of each pod that is bound. They are kept in the order in which they were
last said, so that the oldest go without a look at the others, and no more than so many are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from policy_sched.client.apimachinery import micro_timestamp
from policy_sched.client.kube.time import SECOND

FINISH: Final = 6 * 60 * SECOND
"""A series ends when nothing was said for so long."""
MOST: Final = 100_000
"""Things that were said lately; beyond that the oldest end early."""
REFRESH: Final = 30 * 60 * SECOND
"""How often a series that goes on is written."""
NOTE_LIMIT: Final = 1024
"""The longest note, in bytes (events.k8s.io validation)."""
NAME_LIMIT: Final = 253
"""The longest name of an object (a DNS subdomain)."""

Plain = dict[str, Any]


class Reference(msgspec.Struct, frozen=True, gc=False):
    """The object that an event is about, as it was: client-go names its version, too."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"
    resource_version: str = ""

    def plain(self) -> Plain:
        """Return it as the API has it."""
        plain = {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": self.api_version,
        }
        version = self.resource_version
        return {**plain, "resourceVersion": version} if version else plain


@dataclass(frozen=True, slots=True)
class EventKey:
    """Something that is said of an object; the note is what may differ within a series."""

    regarding: Reference
    type: str
    reason: str
    action: str
    controller: str
    instance: str
    note: str = field(compare=False)
    related: Reference | None = None


@dataclass(slots=True)
class Write:
    """An event to write: as a new object, or its series. ``event`` is the whole of it."""

    namespace: str
    name: str
    event: Plain

    @property
    def series(self) -> Plain | None:
        """The series to write into an event that is there; None for a new event."""
        found: Plain | None = self.event.get("series")
        return found


@dataclass(slots=True)
class _Series:
    """What was said several times, or once so far; the event is made when it is written."""

    said: EventKey
    first: int
    last: int
    count: int = 1

    def write(self) -> Write:
        event = _event(self.said, self.first)
        meta = event["metadata"]
        if self.count > 1:
            said = micro_timestamp(self.last)
            event["series"] = {"count": self.count, "lastObservedTime": said}
        return Write(meta["namespace"], meta["name"], event)


class EventSeries:
    """All that was said lately, at most so much."""

    def __init__(self, most: int = MOST) -> None:
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._series)

    def say(self, said: EventKey, now: int) -> Write | None:
        """Take what is said; return what is to be written now, if anything. ``now``: wall time."""
        known = self._series.get(said)
        if known is None:
            known = self._series[said] = _Series(said, now, now)
            return known.write()
        self._series.move_to_end(said)
        known.count += 1
        known.last = now
        return known.write() if known.count == 2 else None

    def refresh(self) -> list[Write]:
        """Return the series that go on."""
        return [series.write() for series in self._series.values() if series.count > 1]

    def finish(self, now: int) -> Iterator[Write | None]:
        """Forget what has not been said for a while; yield the series among it, None otherwise.

        The caller may pause the iteration and resume it later.
        """
        while self._series:
            oldest = next(iter(self._series.values()))
            if oldest.last >= now - FINISH and len(self._series) <= self._most:
                return
            self._series.popitem(last=False)
            yield oldest.write() if oldest.count > 1 else None


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


def _event(said: EventKey, now: int) -> Plain:
    about = said.regarding
    namespace = about.namespace or "default"
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": _name(about, now), "namespace": namespace},
        "eventTime": micro_timestamp(now),
        "reportingController": said.controller,
        "reportingInstance": said.instance,
        "action": said.action,
        "reason": said.reason,
        "regarding": about.plain(),
        "note": cut(said.note),
        "type": said.type,
    }
    if said.related is not None:
        event["related"] = said.related.plain()
    return event
