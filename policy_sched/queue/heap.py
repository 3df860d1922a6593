"""PodHeap: pods by key; removing one costs nothing until its entry comes up.

Theory of operation. An entry is (key, ticket, pod), and a pod knows the ticket of its only valid
entry: an entry with another ticket is stale and skipped. Tickets are unique over all heaps that
share a counter, so a pod may move from one heap to another. When more than half of the entries
are stale they are swept out. Equal keys leave in the order in which they came.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from policy_sched.model import QueuedPod

SortKey: TypeAlias = tuple[int | float | str, ...]
Entry: TypeAlias = tuple[tuple[object, ...], int, QueuedPod]

#: Fewer entries than this are not worth sweeping.
SWEEP_FROM = 64


class PodHeap:
    """A heap of pods; ``key`` is computed once, when a pod is added or updated."""

    def __init__(
        self, key: Callable[[QueuedPod], tuple[object, ...]], tickets: Iterator[int]
    ) -> None:
        self._key = key
        self._tickets = tickets
        self._entries: list[Entry] = []
        self._count = 0
        self._many = False

    def __len__(self) -> int:
        return self._count

    def push(self, queued: QueuedPod) -> None:
        """Take a pod in that is in no heap."""
        ticket = queued.ticket = next(self._tickets)
        entry = (self._key(queued), ticket, queued)
        if self._many:
            self._entries.append(entry)
        else:
            heapq.heappush(self._entries, entry)
        self._count += 1

    @contextmanager
    def many(self) -> Iterator[None]:
        """Order pods that are pushed within the block at its end, all at once.

        Nothing may be popped or peeked at within it.
        """
        self._many = True
        try:
            yield
        finally:
            self._many = False
            heapq.heapify(self._entries)

    def pop(self) -> QueuedPod | None:
        """Take the pod with the smallest key out; None if there is none."""
        entries = self._entries
        while entries:
            _, ticket, queued = heapq.heappop(entries)
            if queued.ticket == ticket:
                queued.ticket = 0
                self._count -= 1
                return queued
        return None

    def peek(self) -> QueuedPod | None:
        """Return the pod with the smallest key, which stays."""
        entries = self._entries
        while entries:
            _, ticket, queued = entries[0]
            if queued.ticket == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod of this heap out."""
        queued.ticket = 0
        self._count -= 1
        if len(self._entries) > max(SWEEP_FROM, 2 * self._count):
            self._entries = self._valid()
            heapq.heapify(self._entries)

    def update(self, queued: QueuedPod) -> None:
        """Find the place of a pod of this heap anew."""
        self.remove(queued)
        self.push(queued)

    def ordered(self) -> list[QueuedPod]:
        """Return all pods, smallest key first."""
        return [entry[2] for entry in sorted(self._valid())]

    def rekey(self, key: Callable[[QueuedPod], tuple[object, ...]]) -> None:
        """Order the pods by another key from now on."""
        self._key = key
        self._entries = [(key(queued), ticket, queued) for _, ticket, queued in self._valid()]
        heapq.heapify(self._entries)

    def _valid(self) -> list[Entry]:
        return [entry for entry in self._entries if entry[2].ticket == entry[1]]
