"""QueuedPod: a pod that waits for its turn, and what its earlier attempts left behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from policy_sched.model.pod_info import PodInfo

NO_PLUGINS: Final[frozenset[str]] = frozenset()


class QueueState(IntEnum):
    """Where the scheduling queue has a pod; it is in exactly one place."""

    OUT = 0
    """Not in the queue."""
    ACTIVE = 1
    """Ready: it is popped when its turn comes."""
    BACKOFF = 2
    """Worth another attempt when its backoff is over, or when nothing else is ready."""
    UNSCHEDULABLE = 3
    """Waits for an event that may help it."""
    GATED = 4
    """A PreEnqueue plugin keeps it out."""
    IN_FLIGHT = 5
    """Popped, and not yet permitted to be bound, or back."""
    BINDING = 6
    """Permitted, and not yet bound or back: no event is news to it any more."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue. Times are nanoseconds since 1970.

    ``enqueued_at`` is when it was put into the queue, or came back from an attempt, the last time;
    ``first_enqueued_at`` when it came for the first time, ``ready_at`` when it was ready to be
    popped for the first time (0: not yet). ``attempts`` counts scheduling attempts,
    ``unschedulable_count`` those of them that plugins rejected, ``consecutive_errors`` the latest
    ones that met an unexpected error; the last two set the backoff, which ends at
    ``backoff_until`` (0: not worked out).

    ``rejected_by`` are the plugins that rejected the pod in its last attempt or keep it gated,
    ``pending`` those of its last attempt that answered Pending, ``gated_by`` the PreEnqueue plugin
    that keeps it out. ``flushed``: it is tried again because it waited for too long; no event
    brought it back. ``newer`` is what the pod was changed to while it was in flight, and
    ``deleted`` says that it was deleted then: an attempt goes on with the pod that it began with.
    ``place``, ``ticket`` (its turn in a heap or the pool) and ``seen`` (how many events had come
    when it was popped) are the queue's own.
    """

    info: PodInfo
    enqueued_at: int = 0
    first_enqueued_at: int = 0
    ready_at: int = 0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_until: int = 0
    rejected_by: frozenset[str] = NO_PLUGINS
    pending: frozenset[str] = NO_PLUGINS
    gated_by: str = ""
    flushed: bool = False
    place: QueueState = QueueState.OUT
    ticket: int = 0
    seen: int = 0
    newer: PodInfo | None = None
    deleted: bool = False
