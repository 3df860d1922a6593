"""Contents of the scheduling queue, and read-only queries on them.

Pods are only taken out of their places here; where they go, `scheduling_queue` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final

from policy_sched.model import QueuedPod, QueueState
from policy_sched.queue.backoff import Backoff, Timing
from policy_sched.queue.heap import PodHeap, SortKey
from policy_sched.queue.in_flight_events import InFlight
from policy_sched.queue.timers import Timers
from policy_sched.queue.unschedulable_pods import UnschedulablePods

_QUEUES: Final = ("active", "backoff", "unschedulable")


class Contents:
    """Pods that are not bound, each in exactly one place; ``timing`` is the queue's."""

    def __init__(self, sort_key: Callable[[QueuedPod], SortKey], timing: Timing) -> None:
        tickets = count(1)
        self.timing = timing
        self._pods: dict[str, QueuedPod] = {}
        self._active = PodHeap(sort_key, tickets)
        self._active_arrivals: Counter[str] = Counter()
        self._backoff = Backoff(sort_key, tickets, timing)
        self._unschedulable_pods = UnschedulablePods(tickets)
        self._timers = Timers()
        self._in_flight = InFlight()
        self._binding: dict[str, QueuedPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod with that UID, wherever it is; None if it is not in the queue."""
        return self._pods.get(uid)

    def active(self) -> list[QueuedPod]:
        """Return the pods that are ready, in the order in which they will be popped."""
        return self._active.ordered()

    def backoff(self) -> list[QueuedPod]:
        """Return the pods that back off: rejected ones in order, then those that met errors."""
        return list(self._backoff)

    def unschedulable(self) -> list[QueuedPod]:
        """Return the pods that wait for an event, in the order in which they came."""
        return [
            queued
            for queued in self._unschedulable_pods
            if queued.place is QueueState.UNSCHEDULABLE
        ]

    def gated(self) -> list[QueuedPod]:
        """Return the pods that PreEnqueue plugins keep out, in the order in which they came."""
        return [queued for queued in self._unschedulable_pods if queued.place is QueueState.GATED]

    def in_flight(self) -> list[QueuedPod]:
        """Return the pods that were popped and are not permitted yet, in popping order."""
        return list(self._in_flight.pods.values())

    def events_in_flight(self) -> list[str]:
        """Return the labels of the events that are kept for pods in flight, oldest first."""
        return [one.event.label for one in self._in_flight.events]

    def binding(self) -> list[QueuedPod]:
        """Return the pods that are permitted and whose binding takes time."""
        return list(self._binding.values())

    def idle(self) -> bool:
        """Return whether nothing can be popped until time passes or an event arrives."""
        return self._active.peek() is None and not (
            self.timing.pop_from_backoff and self._backoff.has_early()
        )

    def next_flush(self) -> int | None:
        """Return when `flush` will have something to do; None if only an event can help."""
        oldest, sweep = self._unschedulable_pods.oldest(), self.timing.sweep
        times = [self._backoff.next_end(), self._timers.next()]
        if oldest is not None:
            times.append(((oldest + self.timing.unschedulable_timeout) // sweep + 1) * sweep)
        return min((time for time in times if time is not None), default=None)

    def lengths(self) -> dict[str, int]:
        """Return how many pods wait, by queue (pending_pods)."""
        gated = self._unschedulable_pods.gated()
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._unschedulable_pods) - gated,
            "gated": gated,
        }

    def incoming(self) -> Counter[tuple[str, str]]:
        """Return how many pods came, by queue and cause (queue_incoming_pods_total)."""
        found: Counter[tuple[str, str]] = Counter()
        arrivals = (
            self._active_arrivals,
            self._backoff.arrivals,
            self._unschedulable_pods.arrivals,
        )
        for name, by_cause in zip(_QUEUES, arrivals, strict=True):
            found.update({(name, cause): number for cause, number in by_cause.items()})
        return found

    def rejections(self) -> Counter[tuple[str, str]]:
        """Return how many pods each plugin keeps from being bound, by plugin and profile."""
        return Counter(
            (plugin, queued.info.scheduler_name)
            for queued in self._pods.values()
            for plugin in queued.rejected_by | queued.pending
        )

    def _take_out(self, queued: QueuedPod) -> None:
        match queued.place:
            case QueueState.ACTIVE:
                self._active.remove(queued)
            case QueueState.BACKOFF:
                self._backoff.remove(queued)
            case QueueState.UNSCHEDULABLE | QueueState.GATED:
                self._unschedulable_pods.remove(queued)

    def _let_go(self, queued: QueuedPod) -> None:
        if queued.place is QueueState.BINDING:
            del self._binding[queued.info.uid]
        else:
            self._in_flight.remove(queued)
