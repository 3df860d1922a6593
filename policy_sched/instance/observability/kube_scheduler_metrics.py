"""kube-scheduler's metrics by their names, labels, buckets and help texts, as of 1.36.

Left out are those of features that are not here (resource claims) or off by default upstream
(the API dispatcher), and three of opportunistic batching, which has no hints per node here;
tests/serve/upstream_metrics.json has all of them, each with a reason.
"""

from __future__ import annotations

from typing import Final

from policy_sched.instance.observability.metric_families import Families, exponential
from policy_sched.instance.observability.process_metrics import ProcessFamilies

_ATTEMPT: Final = exponential(0.001, 2, 15)
_LONG: Final = exponential(0.01, 2, 20)
_POINT: Final = exponential(0.0001, 2, 12)
_PLUGIN: Final = exponential(0.00001, 1.5, 20)


class HealthMetrics(Families):
    """/metrics/slis: what came of health checks, as all components of Kubernetes have it."""

    def __init__(self) -> None:
        super().__init__()
        self.kubernetes_healthcheck = self.gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            "name type",
        )
        self.kubernetes_healthchecks_total = self.counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            "name status type",
        )

    def checked(self, name: str, path: str, well: bool) -> None:
        """A check was made."""
        self.kubernetes_healthcheck.values[name, path] = well
        status = "success" if well else "error"
        self.kubernetes_healthchecks_total.values[name, status, path] += 1


class UpstreamMetrics(ProcessFamilies):
    """The families, by upstream's names without their prefix ``scheduler_``."""

    def __init__(self) -> None:
        super().__init__()
        self._of_attempts()
        self._of_plugins()
        self._of_the_queue()
        self._of_preemption()
        self._of_the_process()

    def _of_attempts(self) -> None:
        self.schedule_attempts_total = self.counter(
            "scheduler_schedule_attempts_total",
            "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a"
            " pod could not be scheduled, while 'error' means an internal scheduler problem.",
            "result profile",
        )
        self.scheduling_attempt_duration_seconds = self.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            _ATTEMPT,
            "result profile",
        )
        self.scheduling_algorithm_duration_seconds = self.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Scheduling algorithm latency in seconds",
            _ATTEMPT,
        )
        self.pod_scheduling_sli_duration_seconds = self.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the"
            " scheduling queue and might involve multiple scheduling attempts.",
            _LONG,
            "attempts",
        )
        self.pod_scheduling_attempts = self.histogram(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Number of attempts to successfully schedule a pod.",
            exponential(1, 2, 5),
        )
        self.pod_scheduled_after_flush_total = self.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Number of pods that were successfully scheduled after being flushed from"
            " unschedulablePods due to timeout. This metric helps detect potential queueing hint"
            " misconfigurations or event handling issues.",
        )
        self.permit_wait_duration_seconds = self.histogram(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Duration of waiting on permit.",
            _ATTEMPT,
            "result",
        )
        self.batch_attempts_total = self.counter(
            "scheduler_batch_attempts_total",
            "[ALPHA] Counts of results when we attempt to use batching.",
            "profile result",
        )

        self._of_groups()

    def _of_groups(self) -> None:
        self.podgroup_schedule_attempts_total = self.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means"
            " a pod group could not be scheduled, while 'error' means an internal scheduler"
            " problem.",
            "result profile",
        )
        self.podgroup_scheduling_attempt_duration_seconds = self.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "[ALPHA] Pod group scheduling attempt latency in seconds",
            _ATTEMPT,
            "result profile",
        )
        self.podgroup_scheduling_algorithm_duration_seconds = self.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "[ALPHA] Pod group scheduling algorithm latency in seconds",
            _ATTEMPT,
        )

    def _of_plugins(self) -> None:
        self.framework_extension_point_duration_seconds = self.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Latency for running all plugins of a specific extension point.",
            _POINT,
            "extension_point status profile",
        )
        self.plugin_execution_duration_seconds = self.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Duration for running a plugin at a specific extension point.",
            _PLUGIN,
            "plugin extension_point status",
        )
        self.plugin_evaluation_total = self.counter(
            "scheduler_plugin_evaluation_total",
            "[BETA] Number of attempts to schedule pods by each plugin and the extension point"
            " (available only in PreFilter, Filter, PreScore, and Score).",
            "plugin extension_point profile",
        )
        self.volume_binder_cache_requests_total = self.counter(
            "scheduler_volume_binder_cache_requests_total",
            "[ALPHA] Total number for request volume binding cache",
            "operation",
        )
        self.volume_scheduling_stage_error_total = self.counter(
            "scheduler_volume_scheduling_stage_error_total",
            "[ALPHA] Volume scheduling stage error count",
            "operation",
        )

    def _of_the_queue(self) -> None:
        self.pending_pods = self.gauge(
            "scheduler_pending_pods",
            "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in"
            " activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of"
            " pods in unschedulablePods that the scheduler attempted to schedule and failed;"
            " 'gated' is the number of unschedulable pods that the scheduler never attempted to"
            " schedule because they are gated.",
            "queue",
        )
        self.queue_incoming_pods_total = self.counter(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Number of pods added to scheduling queues by event and queue type.",
            "queue event",
        )
        self.unschedulable_pods = self.gauge(
            "scheduler_unschedulable_pods",
            "[BETA] The number of unschedulable pods broken down by plugin name. A pod will"
            " increment the gauge for all plugins that caused it to not schedule and so this"
            " metric have meaning only when broken down by plugin.",
            "plugin profile",
        )
        self.event_handling_duration_seconds = self.histogram(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Event handling latency in seconds.",
            _POINT,
            "event",
        )
        self.queueing_hint_execution_duration_seconds = self.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Duration for running a queueing hint function of a plugin.",
            _PLUGIN,
            "plugin event hint",
        )
        self.inflight_events = self.gauge(
            "scheduler_inflight_events",
            "[ALPHA] Number of events currently tracked in the scheduling queue.",
            "event",
        )
        self.cache_size = self.gauge(
            "scheduler_cache_size",
            "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            "type",
        )
        self.goroutines = self.gauge(
            "scheduler_goroutines",
            "[BETA] Number of running goroutines split by the work they do such as binding.",
            "operation",
        )

    def _of_preemption(self) -> None:
        self.preemption_victims = self.histogram(
            "scheduler_preemption_victims",
            "[STABLE] Number of selected preemption victims",
            exponential(1, 2, 7),
        )
        self.preemption_attempts_total = self.counter(
            "scheduler_preemption_attempts_total",
            "[STABLE] Total preemption attempts in the cluster till now",
        )
        self.preemption_goroutines_duration_seconds = self.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Duration in seconds for running goroutines for the preemption.",
            _LONG,
            "result",
        )
        self.preemption_goroutines_execution_total = self.counter(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Number of preemption goroutines executed.",
            "result",
        )
