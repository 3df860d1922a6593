"""Clocks and back-off.

Imports nothing else of the client.
"""

from policy_sched.client.kube.time.clock import Clocks, SteadyClock
from policy_sched.client.kube.time.work_queue import SECOND, Backoff, BackoffState, WorkQueue

__all__ = [
    "SECOND",
    "Backoff",
    "BackoffState",
    "Clocks",
    "SteadyClock",
    "WorkQueue",
]
