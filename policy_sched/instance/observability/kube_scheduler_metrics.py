"""kube-scheduler's metrics, and those of every Kubernetes component, as of 1.36.

The definitions are in metrics.toml. tests/instance/observability/upstream_metrics.json lists the
metrics that are left out, each with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from policy_sched.client.kube.time import WorkQueueMetrics
from policy_sched.instance.observability.metric_families import Families, Histogram, NumberFamily
from policy_sched.profiles.models import FEATURE_GATES


class HealthMetrics(Families, table="health"):
    """/metrics/slis: results of health checks, as in all Kubernetes components."""

    kubernetes_healthcheck: NumberFamily
    kubernetes_healthchecks_total: NumberFamily

    def checked(self, name: str, path: str, well: bool) -> None:
        """Record a check."""
        self.kubernetes_healthcheck.values[name, path] = well
        status = "success" if well else "error"
        self.kubernetes_healthchecks_total.values[name, status, path] += 1


class UpstreamMetrics(Families, table="scheduler"):
    """The families; attributes are upstream's names without the prefix ``scheduler_``."""

    schedule_attempts_total: NumberFamily
    scheduling_attempt_duration_seconds: Histogram
    scheduling_algorithm_duration_seconds: Histogram
    pod_scheduling_sli_duration_seconds: Histogram
    pod_scheduling_attempts: Histogram
    pod_scheduled_after_flush_total: NumberFamily
    permit_wait_duration_seconds: Histogram
    batch_attempts_total: NumberFamily
    podgroup_schedule_attempts_total: NumberFamily
    podgroup_scheduling_attempt_duration_seconds: Histogram
    podgroup_scheduling_algorithm_duration_seconds: Histogram
    framework_extension_point_duration_seconds: Histogram
    plugin_execution_duration_seconds: Histogram
    plugin_evaluation_total: NumberFamily
    resourceclaim_creates_total: NumberFamily
    dra_bindingconditions_allocations_total: NumberFamily
    dra_bindingconditions_wait_duration_seconds: Histogram
    volume_binder_cache_requests_total: NumberFamily
    volume_scheduling_stage_error_total: NumberFamily
    pending_pods: NumberFamily
    queue_incoming_pods_total: NumberFamily
    unschedulable_pods: NumberFamily
    event_handling_duration_seconds: Histogram
    queueing_hint_execution_duration_seconds: Histogram
    inflight_events: NumberFamily
    cache_size: NumberFamily
    goroutines: NumberFamily
    preemption_victims: Histogram
    preemption_attempts_total: NumberFamily
    preemption_goroutines_duration_seconds: Histogram
    preemption_goroutines_execution_total: NumberFamily
    rest_client_requests_total: NumberFamily
    rest_client_request_duration_seconds: Histogram
    leader_election_master_status: NumberFamily
    kubernetes_build_info: NumberFamily
    rest_client_rate_limiter_duration_seconds: Histogram
    rest_client_request_size_bytes: Histogram
    rest_client_response_size_bytes: Histogram
    kubernetes_feature_enabled: NumberFamily
    workqueue_adds_total: NumberFamily
    workqueue_depth: NumberFamily
    workqueue_longest_running_processor_seconds: NumberFamily
    workqueue_queue_duration_seconds: Histogram
    workqueue_retries_total: NumberFamily
    workqueue_unfinished_work_seconds: NumberFamily
    workqueue_work_duration_seconds: Histogram

    def __init__(self) -> None:
        super().__init__()
        self.gates(frozenset())

    def gates(self, enabled: frozenset[str]) -> None:
        """Set which feature gates are on, besides those that always are."""
        for name, gate in FEATURE_GATES.items():
            on = gate.on or name in enabled
            self.kubernetes_feature_enabled.values[name, gate.stage] = on

    def look_at_queues(self, queues: Iterable[WorkQueueMetrics]) -> None:
        """Set the gauges of queues, and fold their measurements."""
        for queue in queues:
            labels, running = (queue.name,), queue.running()
            self.workqueue_adds_total.values[labels] = queue.adds
            self.workqueue_retries_total.values[labels] = queue.retries
            self.workqueue_depth.values[labels] = queue.depth
            self.workqueue_unfinished_work_seconds.values[labels] = sum(running)
            longest = self.workqueue_longest_running_processor_seconds
            longest.values[labels] = max(running, default=0)
            self.workqueue_queue_duration_seconds.take(labels, queue.waited)
            self.workqueue_work_duration_seconds.take(labels, queue.took)
            del queue.waited[:]
            del queue.took[:]
