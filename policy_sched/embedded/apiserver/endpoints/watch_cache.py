"""Objects of a kind in the order of lists, as they are and as they were.

Theory of operation: the order of keys is kept, and follows the changes since it was last asked
for, each by a binary search; an earlier state is made of the present one by undoing what the
history remembers since. A snapshot never changes: who reads it slowly reads one state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.client.apimachinery import Stored
from policy_sched.embedded.store import ADDED, DELETED, Change, ObjectStore
from policy_sched.model import Kind

EARLIER: Final = 8
"""Earlier states that are kept: as many lists may be read in pages side by side without effort."""
_FEW: Final = 8
"""A kind is put in order anew when more than one of so many of its objects have changed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of a kind, and their keys, in the order of the keys."""

    keys: Sequence[str]
    objects: Sequence[Stored]

    def span(self, namespace: str, start: str) -> tuple[int, int]:
        """Return from where to where the objects of a namespace ("": all) are, from a key on."""
        keys = self.keys
        first, end = bisect_left(keys, start), len(keys)
        if namespace:
            first = max(first, bisect_left(keys, f"{namespace}/"))
            end = bisect_left(keys, f"{namespace}0", first)  # what sorts right after the slash
        return first, end


def key_of(stored: Stored) -> str:
    """Return by what objects are in order."""
    return f"{stored.namespace}/{stored.name}" if stored.namespace else stored.name


class Snapshots:
    """The snapshots of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._present: dict[Kind, tuple[int, Snapshot]] = {}
        self._earlier: OrderedDict[tuple[Kind, int], Snapshot] = OrderedDict()

    def present(self, kind: Kind) -> Snapshot:
        """Return the objects of a kind as they are."""
        version, found = self._present.get(kind, (-1, None))
        changed = self._store.changed_at(kind)
        if found is not None and changed <= version:
            return found
        changes = self._changes(kind, version) if found is not None else None
        if found is None or changes is None or len(changes) * _FEW > len(found.keys):
            named = {key_of(one): one for one in self._store.select(kind)}
            keys = sorted(named)
            found = Snapshot(keys, [named[key] for key in keys])
        else:
            found = _after(found, changes)
        self._present[kind] = self._store.version, found
        return found

    def at(self, kind: Kind, version: int) -> Snapshot:
        """Return the objects of a kind as they were. Raises Expired if that is forgotten."""
        history = self._store.history
        if version != history.version:
            history.since(version, 0)  # which is refused if it is too long ago
        if self._store.changed_at(kind) <= version:
            return self.present(kind)
        found = self._earlier.get((kind, version))
        if found is None:
            found = _before(self.present(kind), self._changes(kind, version) or ())
            self._earlier[kind, version] = found
            if len(self._earlier) > EARLIER:
                self._earlier.popitem(last=False)
        self._earlier.move_to_end((kind, version))
        return found

    def _changes(self, kind: Kind, version: int) -> list[Change] | None:
        """Return the changes of a kind after a version, None if some are forgotten."""
        history = self._store.history
        if version < history.oldest:
            return None
        return [c for c in history.since(version, 2**31) if c.new.resource.key == kind]


def _after(found: Snapshot, changes: Iterable[Change]) -> Snapshot:
    """Return what changes have made of a snapshot."""
    keys, objects = list(found.keys), list(found.objects)
    for change in changes:
        _put(keys, objects, change.new, there=change.type != DELETED)
    return Snapshot(keys, objects)


def _before(found: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Return of what changes have made a snapshot."""
    keys, objects = list(found.keys), list(found.objects)
    for change in reversed(changes):
        old = change.new if change.old is None else change.old
        _put(keys, objects, old, there=change.type != ADDED)
    return Snapshot(keys, objects)


def _put(keys: list[str], objects: list[Stored], one: Stored, *, there: bool) -> None:
    """Let an object be there, in the place of the one of its key, or not."""
    key = key_of(one)
    place = bisect_left(keys, key)
    known = place < len(keys) and keys[place] == key
    if there and known:
        objects[place] = one
    elif there:
        keys.insert(place, key)
        objects.insert(place, one)
    elif known:
        del keys[place], objects[place]
