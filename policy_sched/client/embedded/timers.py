"""What is to happen when: a heap of times, each for a key that has one of its own."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one time (nanoseconds) per key; equal times in the order in which they were set."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._serial = 0

    def __bool__(self) -> bool:
        """Tell whether there is any time."""
        return bool(self._due)

    def set(self, key: K, due: int) -> None:
        """Set the key's time, instead of the one that it has."""
        present = self._due.get(key)
        if present is not None and present[0] == due:
            return
        self._serial += 1
        self._due[key] = due, self._serial
        heapq.heappush(self._heap, (due, self._serial, key))

    def clear(self, key: K) -> None:
        """Forget the key's time, if it has one."""
        self._due.pop(key, None)

    def next(self) -> int | None:
        """Return the earliest time."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def expired(self, now: int) -> Iterator[K]:
        """Yield and forget the keys whose time has come, the earliest first."""
        while (due := self.next()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            yield key
