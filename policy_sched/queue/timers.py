"""Timers: pods that are tried again by the time, because a plugin that rejected them wants it.

Theory of operation: a pod of the pool has at most one time at which it is due, its latest; times
of pods that have left the pool, or have a later one, are passed over when they come up.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from policy_sched.model import QueuedPod, QueueState

_POOL = (QueueState.UNSCHEDULABLE, QueueState.GATED)


class Timers:
    """When pods of the pool are due, in nanoseconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._pods: dict[str, tuple[int, QueuedPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def set(self, queued: QueuedPod, due: int) -> None:
        """The pod is due then, and not before."""
        uid = queued.info.uid
        self._pods[uid] = (due, queued)
        heappush(self._heap, (due, uid))

    def next(self) -> int | None:
        """Return when the first pod is due; None without any."""
        while self._heap:
            due, uid = self._heap[0]
            known = self._pods.get(uid)
            if known is not None and known[0] == due:
                if known[1].place in _POOL:
                    return due
                del self._pods[uid]
            heappop(self._heap)
        return None

    def take(self, now: int) -> Iterator[QueuedPod]:
        """Take out the pods that are due at ``now``."""
        while (due := self.next()) is not None and due <= now:
            _, uid = heappop(self._heap)
            yield self._pods.pop(uid)[1]
