"""Entries that were used of late, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """At most ``limit`` entries or, with ``size_of``, as many as have this size together.

    The least recently used entry goes first; the two latest ones stay, whatever size they have.
    """

    __slots__ = ("_limit", "_size_of", "_sizes", "_total", "entries")

    def __init__(self, limit: int, size_of: Callable[[V], int] | None = None) -> None:
        self._limit, self._size_of = limit, size_of
        self.entries: OrderedDict[K, V] = OrderedDict()
        """To be read only: `in` and `values` of these cost no call, and make none the latest."""
        self._sizes: dict[K, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: K) -> V | None:
        """Return an entry, which is the latest one then; None if there is none."""
        value = self.entries.get(key)
        if value is not None:
            self.entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, which is the latest one then; its size is measured now."""
        entries, sizes = self.entries, self._sizes
        entries[key] = value
        entries.move_to_end(key)
        if self._size_of is None:
            if len(entries) > self._limit:
                entries.popitem(last=False)
            return
        size = self._size_of(value)
        self._total += size - sizes.get(key, 0)
        sizes[key] = size
        while self._total > self._limit and len(entries) > 2:
            oldest, _ = entries.popitem(last=False)
            self._total -= sizes.pop(oldest)

    def pop(self, key: K) -> V | None:
        """Remove an entry and return it; None if there is none."""
        self._total -= self._sizes.pop(key, 0)
        return self.entries.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()
        self._sizes.clear()
        self._total = 0
