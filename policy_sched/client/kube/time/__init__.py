"""Clocks and back-off.

Imports nothing else of the client.
"""

from policy_sched.client.kube.time.work_queue import (
    SECOND,
    Backoff,
    BackoffState,
    Clocks,
    SteadyClock,
    WorkQueue,
)

__all__ = [
    "SECOND",
    "Backoff",
    "BackoffState",
    "Clocks",
    "SteadyClock",
    "WorkQueue",
]
