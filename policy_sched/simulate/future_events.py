"""The known future events of a simulation, in the order in which they take place."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import Any, TypeAlias


class FutureEventKind(IntEnum):
    """Kinds of future events, in the order in which they are applied at one instant."""

    END = 0
    NODE = 1
    POD = 2


Event: TypeAlias = tuple[int, FutureEventKind, int, Any]
"""When, what kind, the number in the order in which events became known, and of what."""


class FutureEvents:
    """The known future events; those of one instant are in the order of their kinds.

    Those that are known at first are sorted once: they are many, and those that a run adds are few
    at a time, in a heap.
    """

    def __init__(self) -> None:
        self._first: list[Event] = []
        self._heap: list[Event] = []
        self._number = 0

    def add(self, at: int, kind: FutureEventKind, what: Any) -> None:
        """Add an event."""
        self._number += 1
        heapq.heappush(self._heap, (at, kind, self._number, what))

    def put_in_order(self) -> None:
        """Sort the events that were added up to now."""
        self._first = sorted([*self._first, *self._heap], reverse=True)
        self._heap = []

    def next_time(self) -> int | None:
        """Return when the next event takes place; None if there is none."""
        first, heap = self._first, self._heap
        if first and (not heap or first[-1][0] <= heap[0][0]):
            return first[-1][0]
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[Event]:
        """Take out the events that take place up to ``now``, in their order."""
        first, heap, found = self._first, self._heap, []
        while first and first[-1][0] <= now:
            found.append(first.pop())
        if not heap or heap[0][0] > now:
            return found
        while heap and heap[0][0] <= now:
            found.append(heapq.heappop(heap))
        found.sort()
        return found
