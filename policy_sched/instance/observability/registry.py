"""The numbers of a running instance for Prometheus; those that upstream has bear its names.

Theory of operation. What happens is counted where it happens (`AttemptMetrics`); what is the case
is looked up when a scrape asks for the text. Nothing here is looked at twice for one number.
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
from policy_sched.client.kube.time import WorkQueue
from policy_sched.instance.observability.kube_scheduler_metrics import UpstreamMetrics
from policy_sched.instance.observability.metric_families import Families, Labels, Numbers
from policy_sched.instance.observability.scheduling_metrics import AttemptMetrics
from policy_sched.profiles.reload import Result, StoreStatus
from policy_sched.profiles.reload import StorePolicySet as PolicySet
from policy_sched.scheduler import Outcome, Scheduler

UPSTREAM: Final = ("1", "36")
"""Major and minor of the kube-scheduler whose decisions and metrics these are."""
FOLDED_AFTER: Final = 4096
"""Attempts after which measurements are folded into buckets even without a scrape."""
_HASH_DIGITS: Final = 13
"""Hexadecimal digits of a hash that a number of 64 bits floating point holds exactly."""
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
"""Machines that Go calls by other names than the system."""


class PolicyMetrics(Families, table="policies"):
    """Our own families: what is in force, and how reloads went."""

    config_last_reload_successful: Numbers
    config_last_reload_success_timestamp_seconds: Numbers
    config_hash: Numbers
    policy_generation: Numbers
    reloads_total: Numbers
    events_lost_total: Numbers
    unreadable_objects: Numbers
    build_info: Numbers

    def __init__(self) -> None:
        super().__init__()
        self.build_info.values[__version__, platform.python_version()] = 1


class Metrics:
    """All numbers of one instance.

    ``timer`` returns seconds from a monotonic clock. ``refresh``: called before the text is made,
    to set what is only looked up then. ``registry``: collectors of prometheus_client.
    """

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        # Upstream has no series for when others were created, and each would be one more.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it takes and returns nothing
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.upstream = UpstreamMetrics()
        self.policies = PolicyMetrics()
        self.attempts = AttemptMetrics(self.upstream, timer)
        self.refresh: list[Callable[[], None]] = []
        self.queues: list[WorkQueue] = []
        """The queues of work that are shown."""
        self._unfolded = 0
        self.upstream.kubernetes_build_info.values[_build()] = 1

    def watch(self, scheduler: Scheduler) -> None:
        """Measure a scheduler from now on; its runners are from `AttemptMetrics.runner`."""
        scheduler.decide = self.attempts.decide
        scheduler.prepare_candidate = self.attempts.prepare_candidate
        scheduler.schedule_group = self.attempts.schedule_group
        scheduler.tell_group = self.attempts.tell_group
        scheduler.queue.hints.watch(self.attempts.hint, self.attempts.timer)
        self.refresh.append(lambda: self._look_at(scheduler))

    def loaded(self, policies: PolicySet, status: StoreStatus) -> None:
        """A set of policies is in force, from the start or from now on."""
        mine = self.policies
        mine.config_hash.values[()] = int(policies.content_hash[:_HASH_DIGITS], 16)
        mine.policy_generation.values.clear()
        for ready in policies.plans:
            mine.policy_generation.values[(ready.plan.scheduler_name,)] = policies.generation
        self.reloadable(status)

    def reloadable(self, status: StoreStatus) -> None:
        """The last load went as the status says."""
        self.policies.config_last_reload_successful.values[()] = status.healthy
        self.policies.config_last_reload_success_timestamp_seconds.values[()] = (
            status.succeeded_at / 1e9
        )

    def reloaded(self, result: Result, trigger: str) -> None:
        """Something asked for a reload, and it ended."""
        self.policies.reloads_total.values[result.value, trigger] += 1

    def decided(self, outcome: Outcome, now: int) -> None:
        """An attempt ended, or the pod waits for permission, which is no result yet."""
        self.attempts.ended(outcome, now)
        self._unfolded += 1
        if self._unfolded >= FOLDED_AFTER:
            self._fold()

    @contextmanager
    def unmeasured(self) -> Iterator[None]:
        """What plugins do meanwhile is no scheduling, and is not measured."""
        self._fold()
        try:
            yield
        finally:
            self.attempts.discard()

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """Yield the text series by series, so that others may have their turns in between."""
        for look in self.refresh:
            look()
        self.upstream.look_at_queues(self.queues)
        self._fold()
        for family in (*self.upstream.all, *self.policies.all):
            yield from family.lines()
        yield generate_latest(self.registry).decode()

    def _fold(self) -> None:
        self._unfolded = 0
        self.attempts.fold()

    def _look_at(self, scheduler: Scheduler) -> None:
        """Set what is the case in a scheduler."""
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
    """Return the system and the machine as Go names them: linux/amd64."""
    name = platform.machine()
    return f"{platform.system().lower()}/{_MACHINES.get(name.lower(), name.lower())}"
