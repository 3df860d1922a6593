"""Bindings: the attempts that wait for something, and which of them may go on.

Theory of operation. A waiting attempt registers a callback with what it waits for, which wakes it.
Deadlines are kept in a heap; stale entries are skipped. Waits without a callback are polled when an
API object has changed, and once a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final

import msgspec

from policy_sched.framework import Wait
from policy_sched.scheduler.attempt import Attempt, Bind
from policy_sched.scheduler.binding_cycle import Steps

#: Nanoseconds between two polls for the same result.
PAUSE: Final = 1_000_000_000


class InFlightBinding(msgspec.Struct, eq=False):
    """An attempt on its way to ``decision.node`` and the rest of its way; ``wait`` is the next."""

    attempt: Attempt
    decision: Bind
    steps: Steps
    wait: Wait | None = None


class InFlightBindings:
    """Attempts that wait, by the UID of their pod, in the order in which they began to.

    ``changes`` returns a number that rises whenever an API object changes.
    """

    def __init__(self, changes: Callable[[], int]) -> None:
        self._changes = changes
        self._bindings: dict[str, InFlightBinding] = {}
        self._ready: dict[str, None] = {}
        self._polled: dict[str, None] = {}
        self._asked_at = self._asked_changes = 0
        self._tickets = count()
        self._deadlines: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return len(self._bindings)

    def __iter__(self) -> Iterator[InFlightBinding]:
        return iter(tuple(self._bindings.values()))

    def set_aside(self, binding: InFlightBinding, now: int) -> None:
        """Keep an attempt until there may be a result for it."""
        uid, wait = binding.attempt.queued.info.uid, binding.wait
        assert wait is not None, "an attempt is set aside because it waits"
        self._bindings[uid] = binding
        wait.wake = partial(self._wake, uid)
        deadline = wait.deadline
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, next(self._tickets), uid))
        if wait.polled:
            if not self._polled:
                self._asked_at, self._asked_changes = now, self._changes()
            self._polled[uid] = None

    def _wake(self, uid: str) -> None:
        self._ready[uid] = None

    def take(self, uid: str) -> InFlightBinding | None:
        """Remove an attempt, if it waits: it resumes or is cancelled."""
        binding = self._bindings.pop(uid, None)
        if binding is not None and binding.wait is not None:
            binding.wait.wake = None
        self._ready.pop(uid, None)
        self._polled.pop(uid, None)
        return binding

    def due(self, now: int) -> list[InFlightBinding]:
        """Take out those for which there may be a result at `now`."""
        uids, self._ready = self._ready, {}
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            uids[heapq.heappop(deadlines)[2]] = None
        if self._polled and (
            now >= self._asked_at + PAUSE or self._changes() != self._asked_changes
        ):
            self._asked_at, self._asked_changes = now, self._changes()
            uids |= self._polled
        return [binding for uid in uids if (binding := self.take(uid)) is not None]

    def has_woken(self) -> bool:
        """Return whether an attempt was woken."""
        return bool(self._ready)

    def next_time(self) -> int | None:
        """Return when an attempt has to be looked at if nothing happens; None: never."""
        deadlines = self._deadlines
        while deadlines:
            deadline, _, uid = deadlines[0]
            binding = self._bindings.get(uid)
            if binding is not None and binding.wait is not None:
                if binding.wait.deadline == deadline:
                    break
                if binding.wait.deadline is not None and binding.wait.deadline > deadline:
                    entry = (binding.wait.deadline, next(self._tickets), uid)
                    heapq.heapreplace(deadlines, entry)
                    continue
            heapq.heappop(deadlines)
        times = [deadlines[0][0]] if deadlines else []
        if self._polled:
            times.append(self._asked_at + PAUSE)
        return min(times, default=None)
