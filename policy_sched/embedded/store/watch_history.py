"""The changes of the objects, in order: a bounded history, and watches as cursors over it.

Theory of operation: every change has a version of its own, one more than the one before, so a
version is a place in the history. A watch is a version and a filter; it holds nothing else, and
nothing waits: `Watch.drain` returns the changes since the last call. A watch that fell behind
the history gets `Expired` and must list again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from policy_sched.client import apimachinery
from policy_sched.model import Kind

ADDED: Final = "ADDED"
UPDATED: Final = "MODIFIED"
DELETED: Final = "DELETED"


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One change of one object; ``old`` is None if it was added.

    Of a deleted object ``new`` is its last state, at the version of the deletion.
    """

    type: str
    version: int
    new: apimachinery.Stored
    old: apimachinery.Stored | None = None


class WatchHistory:
    """The last changes; at least ``limit`` of them are remembered once there were so many."""

    def __init__(self, version: int, limit: int) -> None:
        self.version = version
        self._limit = limit
        self._changes: list[StoreChange] = []

    @property
    def oldest(self) -> int:
        """The oldest version from which a watch can still start."""
        return self.version - len(self._changes)

    def append(self, change: StoreChange) -> None:
        """Append the next change."""
        self._changes.append(change)
        self.version = change.version
        if len(self._changes) > 2 * self._limit:
            del self._changes[: -self._limit]

    def compact(self) -> None:
        """Drop all changes, as an etcd compaction does; watches that are behind must list again."""
        self._changes.clear()

    def since(self, version: int, limit: int) -> Sequence[StoreChange]:
        """Return up to `limit` changes after `version`. Raises Expired if some are dropped."""
        start = version - self.oldest
        if start < 0:
            raise apimachinery.Expired(version, self.oldest)
        return self._changes[start : start + limit]


@dataclass(frozen=True, slots=True)
class Filter:
    """The objects of a watch; None stands for all."""

    kind: Kind | None = None
    namespace: str = ""
    matches: tuple[apimachinery.Match, ...] = ()

    @classmethod
    def of(cls, kind: Kind | None, namespace: str, labels: str, fields: str) -> Self:
        """Return the filter of a kind, a namespace and selectors; "" where everything is meant."""
        matches = [apimachinery.label_match(labels)] if labels else []
        matches += [apimachinery.field_match(fields)] if fields else []
        return cls(kind, namespace, tuple(matches))

    def covers(self, stored: apimachinery.Stored) -> bool:
        """Return whether the kind and the namespace are the watch's."""
        if self.kind is not None and stored.resource.key != self.kind:
            return False
        return not self.namespace or stored.namespace == self.namespace

    def selects(self, stored: apimachinery.Stored | None) -> bool:
        """Return whether the selectors hold."""
        return stored is not None and all(match(stored) for match in self.matches)

    def seen(self, change: StoreChange) -> StoreChange | None:
        """Return a change as it is seen through the selectors: objects enter and leave them."""
        if not self.covers(change.new):
            return None
        if not self.matches:
            return change
        before = self.selects(change.old)
        after = change.type != DELETED and self.selects(change.new)
        if before and after:
            return change
        if after:
            return StoreChange(ADDED, change.version, change.new)
        if before:
            return StoreChange(DELETED, change.version, change.new, change.old)
        return None


class Watch:
    """A cursor over the history. ``version`` is what has been seen; a list's, to start after it."""

    def __init__(
        self,
        history: WatchHistory,
        wanted: Filter,
        version: int,
        initial: Sequence[apimachinery.Stored] = (),
    ) -> None:
        self.version = version
        self._history = history
        self._filter = wanted
        self._initial = list(initial)

    @property
    def behind(self) -> bool:
        """Whether there are changes that were not read yet."""
        return bool(self._initial) or self.version != self._history.version

    def pass_over(self, version: int) -> None:
        """Advance to a version; the caller knows that no change up to it matches."""
        self.version = max(self.version, version)

    def drain(self, limit: int = 2**31) -> list[StoreChange]:
        """Return the changes since the last call, at most `limit` of all kinds looked at.

        Raises Expired if some of them are dropped; the watch cannot continue then.
        """
        changes = [StoreChange(ADDED, stored.version, stored) for stored in self._initial[:limit]]
        del self._initial[:limit]
        if len(changes) < limit:
            changes += self._following(limit - len(changes))
        return changes

    def _following(self, limit: int) -> Iterator[StoreChange]:
        changes = self._history.since(self.version, limit)
        for change in changes:
            seen = self._filter.seen(change)
            if seen is not None:
                yield seen
        if changes:
            self.version = changes[-1].version
