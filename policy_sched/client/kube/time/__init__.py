"""Clocks and back-off.

Imports nothing else of the client.
"""

from policy_sched.client.kube.time.work_queue import (
    SECOND as SECOND,
    BackoffSchedule as BackoffSchedule,
    BackoffState as BackoffState,
    Clocks as Clocks,
    SteadyClock as SteadyClock,
    WorkQueueMetrics as WorkQueueMetrics,
)
