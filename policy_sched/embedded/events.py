"""Events about objects, as a scheduler records them: an equal event is counted, not repeated.

An event lives for an hour since it last occurred, as in an API server, if no more than so many come
in that time: they are in memory here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy_sched.client import apimachinery
from policy_sched.embedded.controllers import KeyTimers, Over
from policy_sched.embedded.store import DELETED, Key, ObjectStore, StoreChange
from policy_sched.manifests import Plain
from policy_sched.model import nanoseconds

LIFETIME: Final = 3600 * apimachinery.SECOND
"""How long an event is kept (the API server's --event-ttl)."""
MOST: Final = 50_000
"""Events that are kept; beyond that the oldest go before their time."""
NOTE_LIMIT: Final = 1024
"""The longest note, in characters (events.k8s.io validation)."""


Reference = tuple[str, str, str, str]
"""Kind, namespace, name and UID of an object."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event's content: its object, text and reporting component."""

    regarding: Reference
    reporter: str
    kind: str
    reason: str
    action: str
    note: str
    related: Reference | None = None
    """The secondary object, as in events.k8s.io."""


class EventLog:
    """Writes events into the store, and deletes old ones."""

    kinds = frozenset({apimachinery.EVENT})

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._most = MOST
        self._names: dict[Occurrence, Key] = {}
        self._occurrences: dict[Key, Occurrence] = {}
        self._timers: KeyTimers[Key] = KeyTimers()

    def observe(self, change: StoreChange) -> None:
        """Observe an event object."""
        key = Key(apimachinery.EVENT, *change.new.namespaced_name)
        if change.type == DELETED:
            self._timers.clear(key)
            occurrence = self._occurrences.pop(key, None)
            if occurrence is not None:
                del self._names[occurrence]
            return
        data = change.new.data
        occurrence = _occurrence(data)
        if key not in self._occurrences and occurrence not in self._names:
            self._occurrences[key] = occurrence
            self._names[occurrence] = key
        self._timers.set(key, _last_seen(change.new, data) + LIFETIME)

    def next_wakeup(self) -> int | None:
        """Return None: old events are removed in the next step and cause none."""
        return None

    def run(self, over: Over) -> bool:
        """Delete old events, and events beyond the limit; return whether there were any."""
        acted = False
        for key in self._surplus():
            if self._store.find(key.kind, key.namespace, key.name) is not None:
                self._store.delete(key)
            acted = True
            if over():
                break
        return acted

    def _surplus(self) -> Iterator[Key]:
        """Yield and remove the keys of events that are old, and of those beyond the limit."""
        yield from self._timers.expired(self._store.now())
        while len(self._timers) > self._most:
            yield self._timers.pop()

    def record(self, occurrence: Occurrence) -> None:
        """Write an event. What cannot be written is lost, as events are."""
        recorded = self._names.get(occurrence)
        stored = self._store.find(*_parts(recorded)) if recorded is not None else None
        if stored is not None:
            self._count(stored)
            return
        name = occurrence.regarding[2]
        now = self._store.now()
        data = _event(occurrence, now)
        namespace = data["metadata"]["namespace"]
        event_name = f"{name}.{now:x}"
        while self._store.find(apimachinery.EVENT, namespace, event_name) is not None:
            now += 1
            event_name = f"{name}.{now:x}"
        data["metadata"]["name"] = event_name
        try:
            self._store.create(data)
        except apimachinery.ApiError:  # the namespace is deleted or terminating
            return
        key = Key(apimachinery.EVENT, namespace, event_name)
        self._names[occurrence] = key
        self._occurrences[key] = occurrence

    def _count(self, stored: apimachinery.Stored) -> None:
        data = stored.data
        count = (data.get("series") or {}).get("count", 1) + 1
        now = apimachinery.micro_timestamp(self._store.now())
        data["series"] = {"count": count, "lastObservedTime": now}
        self._store.revise(stored, data)


def _parts(key: Key) -> tuple[tuple[str, str], str, str]:
    return key.kind, key.namespace, key.name


def _event(occurrence: Occurrence, now: int) -> Plain:
    event: Plain = {
        "apiVersion": apimachinery.EVENT[0],
        "kind": apimachinery.EVENT[1],
        "metadata": {"namespace": occurrence.regarding[1] or "default"},
        "eventTime": apimachinery.micro_timestamp(now),
        "reportingController": occurrence.reporter,
        "reportingInstance": occurrence.reporter,
        "action": occurrence.action,
        "reason": occurrence.reason,
        "regarding": _reference(occurrence.regarding),
        "note": occurrence.note,
        "type": occurrence.kind,
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    if occurrence.related is not None:
        event["related"] = _reference(occurrence.related)
    return event


def _reference(about: Reference) -> Plain:
    kind, namespace, name, uid = about
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "apiVersion": "v1",
    }


def _occurrence(data: Plain) -> Occurrence:
    fields = ("reportingController", "type", "reason", "action", "note")
    reporter, type_, reason, action, note = (str(data.get(field) or "") for field in fields)
    about, other = _about(data.get("regarding") or {}), data.get("related")
    related = _about(other) if other else None
    return Occurrence(about, reporter, type_, reason, action, note, related)


def _about(data: Plain) -> Reference:
    kind, namespace, name, uid = (
        str(data.get(k) or "") for k in ("kind", "namespace", "name", "uid")
    )
    return kind, namespace, name, uid


def _last_seen(stored: apimachinery.Stored, data: Plain) -> int:
    text = (data.get("series") or {}).get("lastObservedTime") or data.get("eventTime")
    return apimachinery.readable(text) or nanoseconds(stored.typed.metadata.creation_timestamp)
