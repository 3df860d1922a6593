"""What is to happen when: a heap of times, each for a key that has one of its own.

Times that were replaced or cleared stay in the heap until they are many.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

FEW: Final = 64
"""Times in vain that are not worth a look."""
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
        self._tidy()

    def clear(self, key: K) -> None:
        """Forget the key's time, if it has one."""
        if self._due.pop(key, None) is not None:
            self._tidy()

    def next(self) -> int | None:
        """Return the earliest time."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        """Return how many keys have a time."""
        return len(self._due)

    def pop(self) -> K:
        """Return and forget the key with the earliest time; there must be one."""
        self.next()
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        return key

    def _tidy(self) -> None:
        """Let go of times that do not count any more, if most are such."""
        if len(self._heap) > 2 * len(self._due) + FEW:
            self._heap = [(*when, key) for key, when in self._due.items()]
            heapq.heapify(self._heap)

    def expired(self, now: int) -> Iterator[K]:
        """Yield and forget the keys whose time has come, the earliest first."""
        while (due := self.next()) is not None and due <= now:
            yield self.pop()
