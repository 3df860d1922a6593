"""What results were computed from, so that a change says which of them to compute anew.

Theory of operation. While a result is computed, each value that it reads of a table (an aggregate,
the objects of an input) is noted with its key. A table tells its readers of each key that changes,
and the results that read that key are stale. A table refers to its readers weakly: those of
policies that are no longer in force go with them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias, TypeVar
from weakref import ref

T = TypeVar("T")
ANY: Final = None
"""The key of a result that depends on every key of a table, and of a change of all of them."""


class Watched:
    """A table that tells of changes; without readers, that is a look at an empty list."""

    __slots__ = ("__weakref__", "readers")

    def __init__(self) -> None:
        self.readers: list[ref[Dependencies]] = []

    def changed(self, key: Hashable) -> None:
        """Tell that the value of a key changed; of `ANY`: of all keys."""
        for reference in self.readers:
            reader = reference()
            if reader is not None:
                reader.note_change(self, key)


Value: TypeAlias = tuple[Watched, Hashable]


class Dependencies:
    """The values that results depend on; a result is known by a text, such as a pod's UID."""

    def __init__(self) -> None:
        self._stale: dict[str, None] = {}
        self._reads: dict[str, frozenset[Value]] = {}
        self._readers: dict[Watched, dict[Hashable, dict[str, None]]] = {}
        self._noted: set[Value] = set()

    def read(self, table: Watched, key: Hashable) -> None:
        """The result that is being computed depends on a key of a table."""
        self._noted.add((table, key))

    def compute(self, name: str, function: Callable[[], T]) -> T:
        """Compute a result, and keep what it reads in place of what it read before."""
        self._noted = set()
        result = function()
        self._stale.pop(name, None)
        noted = frozenset(self._noted)
        if noted != self._reads.get(name, frozenset()):
            self.forget(name)
            if noted:
                self._reads[name] = noted
            for table, key in noted:
                self._readers_of(table).setdefault(key, {})[name] = None
        return result

    def forget(self, name: str) -> None:
        """Drop a result and what it depends on."""
        self._stale.pop(name, None)
        for table, key in self._reads.pop(name, ()):
            by_key = self._readers[table]
            names = by_key[key]
            del names[name]
            if not names:
                del by_key[key]

    def note_change(self, table: Watched, key: Hashable) -> None:
        """Note that a value changed, or all values of a table."""
        by_key = self._readers.get(table, {})
        for read in by_key if key is ANY else (key, ANY):
            self._stale.update(by_key.get(read, {}))

    def take_stale(self) -> list[str]:
        """Return the results to be computed anew, and begin to collect others."""
        if not self._stale:
            return []  # for speed: asked whenever a pod is popped
        stale = list(self._stale)
        self._stale.clear()
        return stale

    def _readers_of(self, table: Watched) -> dict[Hashable, dict[str, None]]:
        by_key = self._readers.get(table)
        if by_key is None:
            by_key = self._readers[table] = {}
            table.readers[:] = [reference for reference in table.readers if reference() is not None]
            table.readers.append(ref(self))
        return by_key
