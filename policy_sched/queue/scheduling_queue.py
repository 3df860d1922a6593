"""Which pod goes next: a heap by the profile's sort keys, and the pods that may not enter it.

Theory of operation. A pod is in exactly one place: gated (a PreEnqueue plugin said no), active
(in the heap), in flight (popped, being decided), or gone. Heap entries are never searched for:
an entry whose serial number is not its pod's latest is stale and skipped when popped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from policy_sched.model.queued_pod import QueuedPod

SortKey = tuple[int | float | str, ...]


class SchedulingQueue:
    """Pods waiting for a decision.

    ``sort_key`` is the QueueSort plugin of the profiles (it is one for all of them); equal keys
    leave in the order in which they came.
    """

    def __init__(self, sort_key: Callable[[QueuedPod], SortKey]) -> None:
        self._sort_key = sort_key
        self._heap: list[tuple[SortKey, int, QueuedPod]] = []
        self._serial: dict[str, int] = {}
        self._next = count()
        self.gated: dict[str, QueuedPod] = {}
        self.in_flight: dict[str, QueuedPod] = {}

    def __len__(self) -> int:
        return len(self._serial)

    def add(self, queued: QueuedPod) -> None:
        """Put a pod into the active queue, from wherever it was."""
        uid = queued.info.uid
        self.gated.pop(uid, None)
        self.in_flight.pop(uid, None)
        serial = next(self._next)
        self._serial[uid] = serial
        heapq.heappush(self._heap, (self._sort_key(queued), serial, queued))

    def gate(self, queued: QueuedPod) -> None:
        """Keep a pod out of the active queue."""
        uid = queued.info.uid
        self._serial.pop(uid, None)
        self.in_flight.pop(uid, None)
        self.gated[uid] = queued

    def pop(self) -> QueuedPod | None:
        """Take the pod that goes next; None if the active queue is empty."""
        while self._heap:
            _, serial, queued = heapq.heappop(self._heap)
            uid = queued.info.uid
            if self._serial.get(uid) == serial:
                del self._serial[uid]
                queued.attempts += 1
                self.in_flight[uid] = queued
                return queued
        return None

    def done(self, uid: str) -> None:
        """The popped pod has been dealt with."""
        self.in_flight.pop(uid, None)

    def delete(self, uid: str) -> None:
        """The pod is gone, whatever state it was in."""
        self._serial.pop(uid, None)
        self.gated.pop(uid, None)
        self.in_flight.pop(uid, None)
