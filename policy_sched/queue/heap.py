"""PodHeap: pods by key; removing one costs nothing until its entry comes up.

Theory of operation. An entry is (key, ticket, pod), and a pod knows the ticket of its only valid
entry: an entry with another ticket is stale and skipped. Tickets are unique over all heaps that
share a counter, so a pod may move from one heap to another. When more than half of the entries
are stale they are swept out. Equal keys leave in the order in which they came.

A key may say when the pod's group failed last, which is later the next time: such a key only grows,
so it is looked at again when the pod comes up.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from policy_sched.model import QueuedPod

SortKey: TypeAlias = tuple[int | float | str, ...]
Entry: TypeAlias = tuple[tuple[Any, ...], int, QueuedPod]

#: Fewer entries than this are not worth sweeping.
SWEEP_FROM = 64
#: From so many pods on, a heap is ordered once after they all came or went.
MANY = 256


class PodHeap:
    """A heap of pods; ``key`` is computed when a pod is added or updated.

    A key may become greater while a pod of a group is here.
    """

    def __init__(
        self, key: Callable[[QueuedPod], tuple[object, ...]], tickets: Iterator[int]
    ) -> None:
        self._key = key
        self._tickets = tickets
        self._entries: list[Entry] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, queued: QueuedPod) -> tuple[Any, ...]:
        """Take a pod in that is in no heap, and return its key."""
        ticket = queued.ticket = next(self._tickets)
        key = self._key(queued)
        heapq.heappush(self._entries, (key, ticket, queued))
        self._count += 1
        return key

    def push_all(self, pods: Sequence[QueuedPod]) -> None:
        """Take pods in as `push` does one after the other; many are ordered only once."""
        if len(pods) < MANY:
            for queued in pods:
                self.push(queued)
            return
        keys = list(map(self._key, pods))
        for key, ticket, queued in zip(keys, self._tickets, pods, strict=False):
            queued.ticket = ticket
            self._entries.append((key, ticket, queued))
        self._count += len(pods)
        heapq.heapify(self._entries)

    def pop(self) -> QueuedPod | None:
        """Take the pod with the smallest key out; None if there is none."""
        entries = self._entries
        while entries:
            entry = heapq.heappop(entries)
            _, ticket, queued = entry
            if queued.ticket == ticket:
                if queued.info.pod_group and self._has_grown(entry):
                    continue
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

    def first(self) -> tuple[tuple[Any, ...], int, QueuedPod] | None:
        """Return the entry that `pop` would take out."""
        while (queued := self.peek()) is not None:
            entry = self._entries[0]
            if not (queued.info.pod_group and self._has_grown(entry)):
                return entry
            heapq.heappop(self._entries)
        return None

    def take_while(self, wanted: Callable[[QueuedPod], bool]) -> list[QueuedPod]:
        """Take pods out, the smallest key first, until one is not wanted.

        No pod behind that one may be wanted: many are found by a look at all.
        """
        pods: list[QueuedPod] = []
        while (queued := self.peek()) is not None and wanted(queued):
            if len(pods) >= MANY:
                entries = sorted(self._valid())
                end = bisect_left(entries, True, key=lambda entry: not wanted(entry[2]))
                pods += [queued for _, _, queued in entries[:end]]
                for queued in pods[MANY:]:
                    queued.ticket = 0
                self._entries = entries[end:]
                self._count = len(self._entries)
                break
            self.pop()
            pods.append(queued)
        return pods

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
        entries = [
            (self._key(queued) if queued.info.pod_group else key, ticket, queued)
            for key, ticket, queued in self._valid()
        ]
        return [queued for _, _, queued in sorted(entries)]

    def _has_grown(self, entry: Entry) -> bool:
        """Return whether an entry's key is greater now; it then has its place by that."""
        before, ticket, queued = entry
        key = self._key(queued)
        if key > before:
            heapq.heappush(self._entries, (key, ticket, queued))
            return True
        return False

    def rekey(self, key: Callable[[QueuedPod], tuple[object, ...]]) -> None:
        """Order the pods by another key from now on."""
        self._key = key
        self._entries = [(key(queued), ticket, queued) for _, ticket, queued in self._valid()]
        heapq.heapify(self._entries)

    def _valid(self) -> list[Entry]:
        return [entry for entry in self._entries if entry[2].ticket == entry[1]]
