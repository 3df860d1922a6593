"""Metrics, logs and health.

Names, labels and buckets of metrics are kube-scheduler's where it has them.
"""

from policy_sched.instance.observability.event_loop_latency import EventLoopLatency, measured_loop
from policy_sched.instance.observability.healthz import (
    HANDLED,
    LEADER_ELECTION,
    PING,
    POLICIES,
    READABLE,
    SHUTDOWN,
    STORAGE,
    SYNCED,
    Check,
    HealthResponse,
    health_response,
    nothing_wrong,
    single_check_response,
)
from policy_sched.instance.observability.kube_scheduler_metrics import (
    HealthMetrics,
    UpstreamMetrics,
)
from policy_sched.instance.observability.log import (
    ERROR,
    INFO,
    SERVING_CONSOLE,
    STEPS,
    WARNING,
    Decided,
    DecisionLog,
    LineWriter,
    LogThrottle,
    Record,
    VerboseLogging,
    Verbosity,
    Write,
)
from policy_sched.instance.observability.metric_families import Families, Labels
from policy_sched.instance.observability.registry import UPSTREAM, Metrics, PolicyMetrics, machine
from policy_sched.instance.observability.resource_metrics import ClusterMetrics, resource_pieces
from policy_sched.instance.observability.scheduling_metrics import AttemptMetrics

__all__ = [
    "ERROR",
    "HANDLED",
    "INFO",
    "LEADER_ELECTION",
    "PING",
    "POLICIES",
    "READABLE",
    "SERVING_CONSOLE",
    "SHUTDOWN",
    "STEPS",
    "STORAGE",
    "SYNCED",
    "UPSTREAM",
    "WARNING",
    "AttemptMetrics",
    "Check",
    "ClusterMetrics",
    "Decided",
    "DecisionLog",
    "EventLoopLatency",
    "Families",
    "HealthMetrics",
    "HealthResponse",
    "Labels",
    "LineWriter",
    "LogThrottle",
    "Metrics",
    "PolicyMetrics",
    "Record",
    "UpstreamMetrics",
    "VerboseLogging",
    "Verbosity",
    "Write",
    "health_response",
    "machine",
    "measured_loop",
    "nothing_wrong",
    "resource_pieces",
    "single_check_response",
]
