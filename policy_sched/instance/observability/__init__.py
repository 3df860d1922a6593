"""Metrics, logs and health.

Names, labels and buckets of metrics are kube-scheduler's where it has them.
"""

from policy_sched.instance.observability import healthz as healthz
from policy_sched.instance.observability.decision_records import (
    MASKABLE as MASKABLE,
    DecisionRecord as DecisionRecord,
    DecisionRecorder as DecisionRecorder,
)
from policy_sched.instance.observability.event_loop_latency import (
    EventLoopLatency as EventLoopLatency,
    measured_loop as measured_loop,
)
from policy_sched.instance.observability.kube_scheduler_metrics import (
    HealthMetrics as HealthMetrics,
    UpstreamMetrics as UpstreamMetrics,
)
from policy_sched.instance.observability.log import (
    ERROR as ERROR,
    INFO as INFO,
    SERVING_CONSOLE as SERVING_CONSOLE,
    STEPS as STEPS,
    WARNING as WARNING,
    Decided as Decided,
    DecisionLog as DecisionLog,
    LineWriter as LineWriter,
    LogThrottle as LogThrottle,
    Record as Record,
    VerboseLogging as VerboseLogging,
    Verbosity as Verbosity,
    Write as Write,
    difference as difference,
    points_text as points_text,
)
from policy_sched.instance.observability.metric_families import (
    Families as Families,
    Histogram as Histogram,
    Labels as Labels,
    NumberFamily as NumberFamily,
)
from policy_sched.instance.observability.registry import (
    UPSTREAM as UPSTREAM,
    Metrics as Metrics,
    PolicyMetrics as PolicyMetrics,
    machine as machine,
)
from policy_sched.instance.observability.resource_metrics import (
    ClusterMetrics as ClusterMetrics,
    resource_pieces as resource_pieces,
)
from policy_sched.instance.observability.rotated_log import RotatedLog as RotatedLog
from policy_sched.instance.observability.scheduling_metrics import AttemptMetrics as AttemptMetrics
