"""Metrics that every component of Kubernetes has: gates, build, requests, leases, work queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policy_sched.client.kube.time import WorkQueue
from policy_sched.instance.observability.metric_families import Families, exponential

_REST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_WORK: Final = exponential(10e-9, 10, 10)
ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
GA: Final = ""
GATES: Final = {
    "SchedulerQueueingHints": (GA, True),
    "SchedulerPopFromBackoffQ": (BETA, True),
    "SchedulerAsyncPreemption": (BETA, True),
    "SchedulerAsyncAPICalls": (BETA, False),
    "OpportunisticBatching": (BETA, True),
    "NominatedNodeNameForExpectation": (BETA, True),
    "MatchLabelKeysInPodTopologySpread": (BETA, True),
    "MatchLabelKeysInPodAffinity": (GA, True),
    "NodeInclusionPolicyInPodTopologySpread": (GA, True),
    "PodSchedulingReadiness": (GA, True),
    "GenericWorkload": (ALPHA, True),
    "GangScheduling": (ALPHA, True),
    "DynamicResourceAllocation": (GA, False),
    "NodeDeclaredFeatures": (BETA, False),
    "StorageCapacityScoring": (ALPHA, False),
    "CoordinatedLeaderElection": (BETA, False),
}
"""Feature gates of kube-scheduler 1.36 by name: their stage there, and whether it is done here."""


class ProcessFamilies(Families):
    """The families; each name is upstream's."""

    def _of_the_process(self) -> None:
        self.rest_client_requests_total = self.counter(
            "rest_client_requests_total",
            "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            "code method host",
        )
        self.rest_client_request_duration_seconds = self.histogram(
            "rest_client_request_duration_seconds",
            "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
            _REST,
            "verb host",
        )
        self.leader_election_master_status = self.gauge(
            "leader_election_master_status",
            "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates"
            " backup, 1 indicates master. 'name' is the string used to identify the lease. Please"
            " make sure to group by name.",
            "name",
        )
        self.kubernetes_build_info = self.gauge(
            "kubernetes_build_info",
            "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git"
            " commit, git tree state, build date, Go version, and compiler from which Kubernetes"
            " was built, and platform on which it is running.",
            "build_date compiler git_commit git_tree_state git_version go_version major minor"
            " platform",
        )
        self.rest_client_rate_limiter_duration_seconds = self.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
            _REST,
            "verb host",
        )
        self.rest_client_request_size_bytes = self.histogram(
            "rest_client_request_size_bytes",
            "[ALPHA] Request size in bytes. Broken down by verb and host.",
            _SIZE,
            "verb host",
        )
        self.rest_client_response_size_bytes = self.histogram(
            "rest_client_response_size_bytes",
            "[ALPHA] Response size in bytes. Broken down by verb and host.",
            _SIZE,
            "verb host",
        )
        self.kubernetes_feature_enabled = self.gauge(
            "kubernetes_feature_enabled",
            "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
            "name stage",
        )
        for name, (stage, enabled) in GATES.items():
            self.kubernetes_feature_enabled.values[name, stage] = enabled
        self._of_queues()

    def _of_queues(self) -> None:
        self.workqueue_adds_total = self.counter(
            "workqueue_adds_total",
            "[BETA] Total number of adds handled by workqueue",
            "name",
        )
        self.workqueue_depth = self.gauge(
            "workqueue_depth", "[BETA] Current depth of workqueue", "name"
        )
        self.workqueue_longest_running_processor_seconds = self.gauge(
            "workqueue_longest_running_processor_seconds",
            "[BETA] How many seconds has the longest running processor for workqueue been running.",
            "name",
        )
        self.workqueue_queue_duration_seconds = self.histogram(
            "workqueue_queue_duration_seconds",
            "[BETA] How long in seconds an item stays in workqueue before being requested.",
            _WORK,
            "name",
        )
        self.workqueue_retries_total = self.counter(
            "workqueue_retries_total",
            "[BETA] Total number of retries handled by workqueue",
            "name",
        )
        self.workqueue_unfinished_work_seconds = self.gauge(
            "workqueue_unfinished_work_seconds",
            "[BETA] How many seconds of work has done that is in progress and hasn't been"
            " observed by work_duration. Large values indicate stuck threads. One can deduce the"
            " number of stuck threads by observing the rate at which this increases.",
            "name",
        )
        self.workqueue_work_duration_seconds = self.histogram(
            "workqueue_work_duration_seconds",
            "[BETA] How long in seconds processing an item from workqueue takes.",
            _WORK,
            "name",
        )

    def look_at_queues(self, queues: Iterable[WorkQueue]) -> None:
        """Set what is the case in queues, and take what was measured of them."""
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
            queue.waited.clear()
            queue.took.clear()
