"""QueuedPod: a pod that waits for its turn, and what its earlier attempts left behind."""

from __future__ import annotations

from dataclasses import dataclass

from policy_sched.model.pod_info import PodInfo


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue. Times are nanoseconds since 1970.

    ``enqueued_at`` is when it was last put into the queue, ``first_enqueued_at`` when it came for
    the first time. ``attempts`` counts scheduling attempts, ``unschedulable_count`` those of them
    that found no node (it sets the backoff), not those that met an unexpected error.
    """

    info: PodInfo
    enqueued_at: int = 0
    first_enqueued_at: int = 0
    attempts: int = 0
    unschedulable_count: int = 0
