"""Backoff: pods that are worth another attempt, but not yet.

Theory of operation. A backoff doubles with every attempt in vain, and ends at a whole second, the
start of a window: all pods of one window become ready together, so that within it the queue's
own order counts. Rejected pods and pods that met an unexpected error are kept apart. When nothing
else is ready the scheduler takes a rejected pod early; an error is never retried early.
Numbers and rules are kube-scheduler's (backend/queue/backoff_queue.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from policy_sched.model import QueuedPod
from policy_sched.queue.heap import PodHeap, SortKey

SECOND: Final = 1_000_000_000
WINDOW: Final = SECOND
"""Length of an ordering window in nanoseconds."""


class Timing(msgspec.Struct, frozen=True):
    """The queue's durations in nanoseconds.

    ``initial_backoff`` follows the first attempt in vain, none is longer than ``max_backoff``
    (podInitialBackoffSeconds, podMaxBackoffSeconds); no pod waits for an event for longer than
    ``unschedulable_timeout``, which is looked after at every multiple of ``sweep``.
    ``pop_from_backoff``: SchedulerPopFromBackoffQ.
    """

    initial_backoff: int = SECOND
    max_backoff: int = 10 * SECOND
    unschedulable_timeout: int = 300 * SECOND
    sweep: int = 30 * SECOND
    pop_from_backoff: bool = True


def window(time: int) -> int:
    """Return the start of the window that ``time`` is in."""
    return time - time % WINDOW


class Backoff:
    """Pods that back off, in two heaps; ``arrivals`` counts them by the label of the cause."""

    def __init__(
        self, sort_key: Callable[[QueuedPod], SortKey], tickets: Iterator[int], timing: Timing
    ) -> None:
        self._timing = timing
        self._rejected = PodHeap(_by_window_and(sort_key), tickets)
        self._errors = PodHeap(_by_window, tickets)
        self.arrivals: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected.ordered()
        yield from self._errors.ordered()

    def ends(self, queued: QueuedPod) -> int:
        """Return when the pod's backoff ends; 0 if nothing was tried in vain, nor put off."""
        ends = queued.backoff_until
        count = queued.consecutive_errors or queued.unschedulable_count
        if ends == 0 and count:
            ends = queued.backoff_until = window(queued.enqueued_at + self._duration(count))
        return ends

    def backing_off(self, queued: QueuedPod, now: int) -> bool:
        """Tell whether the backoff is not over; it is not in the window that it ends in."""
        ends = self.ends(queued)
        return ends != 0 and ends >= window(now)

    def add(self, queued: QueuedPod, cause: str) -> None:
        """Take a pod in that has to wait for the end of its backoff."""
        self.ends(queued)
        self._heap_of(queued).push(queued)
        self.arrivals[cause] += 1

    def add_all(self, pods: Sequence[QueuedPod], cause: str) -> None:
        """Take pods in as `add` does one after the other."""
        rejected: list[QueuedPod] = []
        errors: list[QueuedPod] = []
        for queued in pods:
            self.ends(queued)
            (rejected if queued.rejected_by or queued.pending else errors).append(queued)
        self._rejected.push_all(rejected)
        self._errors.push_all(errors)
        if pods:
            self.arrivals[cause] += len(pods)

    def update(self, queued: QueuedPod) -> None:
        """Find the place of a changed pod anew; its backoff stays."""
        self._heap_of(queued).update(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out."""
        self._heap_of(queued).remove(queued)

    def pop_early(self) -> QueuedPod | None:
        """Take the rejected pod out whose backoff ends first; None if there is none."""
        return self._rejected.pop()

    def has_early(self) -> bool:
        """Tell whether `pop_early` would find a pod."""
        return len(self._rejected) > 0

    def pop_complete(self, now: int) -> list[QueuedPod]:
        """Take out all pods whose backoff is over, rejected ones first."""

        def complete(queued: QueuedPod) -> bool:
            return not self.backing_off(queued, now)

        return self._rejected.take_while(complete) + self._errors.take_while(complete)

    def next_end(self) -> int | None:
        """Return when the first pod can be taken out by `pop_complete`; None without pods."""
        if not self._rejected and not self._errors:
            return None
        first = (heap.peek() for heap in (self._rejected, self._errors))
        ends = [self.ends(queued) + WINDOW for queued in first if queued is not None]
        return min(ends, default=None)

    def rekey(self, sort_key: Callable[[QueuedPod], SortKey]) -> None:
        """Order the pods of one window by another key from now on."""
        self._rejected.rekey(_by_window_and(sort_key))

    def _duration(self, count: int) -> int:
        initial, longest = self._timing.initial_backoff, self._timing.max_backoff
        shift = count - 1
        return longest if initial > longest >> shift else initial << shift

    def _heap_of(self, queued: QueuedPod) -> PodHeap:
        return self._rejected if queued.rejected_by or queued.pending else self._errors


def _by_window(queued: QueuedPod) -> tuple[object, ...]:
    return (queued.backoff_until,)


def _by_window_and(
    sort_key: Callable[[QueuedPod], SortKey],
) -> Callable[[QueuedPod], tuple[object, ...]]:
    def key(queued: QueuedPod) -> tuple[object, ...]:
        return (queued.backoff_until, sort_key(queued))

    return key
