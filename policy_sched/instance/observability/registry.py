"""The metrics of a running instance, in Prometheus' text format, under upstream's names.

Theory of operation. Events are counted where they happen (`AttemptMetrics`); gauges are set at a
scrape.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from policy_sched import __version__
from policy_sched.client.kube.time import WorkQueueMetrics
from policy_sched.instance.observability.kube_scheduler_metrics import UpstreamMetrics
from policy_sched.instance.observability.metric_families import Families, Labels, NumberFamily
from policy_sched.instance.observability.scheduling_metrics import AttemptMetrics
from policy_sched.plugins.dynamicresources import ClaimCounts
from policy_sched.profiles.reload import ActivePolicies, ReloadResult, StoreStatus
from policy_sched.scheduler import Outcome, Scheduler

UPSTREAM: Final = ("1", "36")
"""Major and minor of the kube-scheduler whose decisions and metrics these are."""
FOLDED_AFTER: Final = 4096
"""Attempts after which measurements are folded into buckets even without a scrape."""
_HASH_DIGITS: Final = 13
"""Hexadecimal digits of a hash that a 64-bit float holds exactly."""
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
"""Architectures that Go names differently than the system."""


class PolicyMetrics(Families, table="policies"):
    """Families of policy_sched: the active policies, and results of reloads."""

    config_last_reload_successful: NumberFamily
    config_last_reload_success_timestamp_seconds: NumberFamily
    config_hash: NumberFamily
    policy_generation: NumberFamily
    reloads_total: NumberFamily
    events_lost_total: NumberFamily
    unreadable_objects: NumberFamily
    input_objects: NumberFamily
    input_invalid_objects: NumberFamily
    input_schema_differences: NumberFamily
    input_polls_total: NumberFamily
    input_last_success_timestamp_seconds: NumberFamily
    quota_status_writes_total: NumberFamily
    evictions_total: NumberFamily
    audit_decisions_total: NumberFamily
    audit_skipped_total: NumberFamily
    rollout_step: NumberFamily
    rollout_phase: NumberFamily
    rollout_decisions_total: NumberFamily
    decision_log_lost_lines: NumberFamily
    recording_bytes_total: NumberFamily
    recording_lost_lines: NumberFamily
    build_info: NumberFamily

    def __init__(self) -> None:
        super().__init__()
        self.build_info.values[__version__, platform.python_version()] = 1


class Metrics:
    """All metrics of one instance.

    ``timer`` returns seconds from a monotonic clock. ``refresh``: called before a scrape to set
    gauges. ``registry``: collectors of prometheus_client.
    """

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        # Upstream has no series of creation times; they would double the counters.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it takes and returns nothing
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.upstream = UpstreamMetrics()
        self.policies = PolicyMetrics()
        self.families: list[Families] = [self.upstream, self.policies]
        self.attempts = AttemptMetrics(self.upstream, timer)
        self.refresh: list[Callable[[], None]] = []
        self.queues: list[WorkQueueMetrics] = []
        """The work queues with metrics."""
        self._unfolded = 0
        self.upstream.kubernetes_build_info.values[_build()] = 1

    def add(self, families: Families, look: Callable[[], None] | None = None) -> None:
        """Have further families; ``look`` sets their gauges before a scrape."""
        self.families.append(families)
        if look is not None:
            self.refresh.append(look)

    def watch(self, scheduler: Scheduler) -> None:
        """Measure a scheduler from now on; its runners are from `AttemptMetrics.runner`."""
        self.attempts.claims = scheduler.handle.shared(ClaimCounts)
        self.attempts.watch(scheduler.observers)
        scheduler.queue.hints.watch(self.attempts.hint, self.attempts.timer)
        self.refresh.append(lambda: self._look_at(scheduler))

    def loaded(self, policies: ActivePolicies, status: StoreStatus) -> None:
        """Record that a set of policies is active."""
        mine = self.policies
        mine.config_hash.values[()] = int(policies.content_hash[:_HASH_DIGITS], 16)
        mine.policy_generation.values.clear()
        for ready in policies.plans:
            mine.policy_generation.values[(ready.plan.scheduler_name,)] = policies.generation
        self.upstream.gates(policies.plans[0].plan.feature_gates)
        self.reloadable(status)

    def reloadable(self, status: StoreStatus) -> None:
        """Record the result of the last load."""
        self.policies.config_last_reload_successful.values[()] = status.healthy
        self.policies.config_last_reload_success_timestamp_seconds.values[()] = (
            status.succeeded_at / 1e9
        )

    def reloaded(self, result: ReloadResult, trigger: str) -> None:
        """Record a reload and its trigger."""
        self.policies.reloads_total.values[result.value, trigger] += 1

    def decided(self, outcome: Outcome, now: int) -> None:
        """Record the end of an attempt; a pod that waits in Permit has no result yet."""
        self.attempts.ended(outcome, now)
        self._unfolded += 1
        if self._unfolded >= FOLDED_AFTER:
            self._fold()

    @contextmanager
    def unmeasured(self) -> Iterator[None]:
        """Measure no plugin calls within the context: they are not part of scheduling."""
        self._fold()
        try:
            yield
        finally:
            self.attempts.discard()

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """Yield the text in small pieces, so that other tasks can run in between."""
        for look in self.refresh:
            look()
        self.upstream.look_at_queues(self.queues)
        self._fold()
        for families in self.families:
            for family in families.all:
                yield from family.pieces()
        yield generate_latest(self.registry).decode()

    def _fold(self) -> None:
        self._unfolded = 0
        self.attempts.fold()

    def _look_at(self, scheduler: Scheduler) -> None:
        """Set the gauges of a scheduler."""
        families, queue, cache = self.upstream, scheduler.queue, scheduler.cache
        families.pending_pods.replace({(n,): count for n, count in queue.lengths().items()})
        families.queue_incoming_pods_total.replace(
            {(name, event): count for (name, event), count in queue.incoming().items()}
        )
        families.unschedulable_pods.replace({(*key,): n for key, n in queue.rejections().items()})
        happening: Counter[Labels] = Counter((label,) for label in queue.events_in_flight())
        happening[("PodPopped",)] = len(queue.in_flight())
        families.inflight_events.replace(dict(happening))
        sizes = {
            "nodes": cache.nodes.live_count,
            "pods": len(cache),
            "assumed_pods": cache.assumed(),
        }
        families.cache_size.replace({(kind,): size for kind, size in sizes.items()})
        families.goroutines.replace({("binding",): scheduler.in_flight})


def _build() -> Labels:
    """Return the labels of kubernetes_build_info, in their order."""
    major, minor = UPSTREAM
    version = f"v{major}.{minor}.0+policy-sched.{__version__}"
    return ("", platform.python_implementation(), "", "", version, "", major, minor, machine())


def machine() -> str:
    """Return the system and the architecture in Go's names: linux/amd64."""
    name = platform.machine()
    return f"{platform.system().lower()}/{_MACHINES.get(name.lower(), name.lower())}"
