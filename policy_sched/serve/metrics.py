"""The numbers of a running instance for Prometheus; those that upstream has bear its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from policy_sched.profiles.store import PolicySet, Result, StoreStatus
from policy_sched.scheduler.loop import Outcome

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
_HASH_DIGITS: Final = 13
"""Hexadecimal digits of a hash that a number of 64 bits floating point holds exactly."""


class Metrics:
    """One registry. Nothing is read from outside: others tell what happened."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._last_successful = self._gauge(
            "policy_sched_config_last_reload_successful",
            "Whether the last load of the configuration and the policies succeeded.",
        )
        self._succeeded_at = self._gauge(
            "policy_sched_config_last_reload_success_timestamp_seconds",
            "When a load last succeeded, in seconds since 1970.",
        )
        self._hash = self._gauge(
            "policy_sched_config_hash",
            "The content hash of what is in force: its first 13 hexadecimal digits as a number.",
        )
        self._generation = self._gauge(
            "policy_sched_policy_generation",
            "The generation of the policies in force, by profile.",
            "profile",
        )
        self._reloads = self._counter(
            "policy_sched_reloads",
            "Reloads by result and by what asked for them.",
            "result trigger",
        )
        self._attempts = self._counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result and profile.",
            "result profile",
        )
        self._pending = self._gauge(
            "scheduler_pending_pods", "Pods that wait, by the queue that they wait in.", "queue"
        )

    def loaded(self, policies: PolicySet, status: StoreStatus) -> None:
        """A set of policies is in force, from the start or from now on."""
        self._hash.set(int(policies.content_hash[:_HASH_DIGITS], 16))
        self._generation.clear()
        for ready in policies.plans:
            self._generation.labels(ready.plan.scheduler_name).set(policies.generation)
        self.reloadable(status)

    def reloadable(self, status: StoreStatus) -> None:
        """The last load went as the status says."""
        self._last_successful.set(status.healthy)
        self._succeeded_at.set(status.succeeded_at / 1e9)

    def reloaded(self, result: Result, trigger: str) -> None:
        """Something asked for a reload, and it ended."""
        self._reloads.labels(result.value, trigger).inc()

    def decided(self, outcome: Outcome) -> None:
        """An attempt ended, or the pod waits for permission, which is no result yet."""
        if outcome.waiting:
            return
        failed = UNSCHEDULABLE if outcome.status.rejected else ERROR
        result = SCHEDULED if outcome.node else failed
        self._attempts.labels(result, outcome.pod.scheduler_name).inc()

    def waiting(self, lengths: Mapping[str, int]) -> None:
        """The queue is this long, by queue."""
        for queue, length in lengths.items():
            self._pending.labels(queue).set(length)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry).decode()

    def _gauge(self, name: str, help_: str, labels: str = "") -> Gauge:
        return Gauge(name, help_, labels.split(), registry=self.registry)

    def _counter(self, name: str, help_: str, labels: str = "") -> Counter:
        return Counter(name, help_, labels.split(), registry=self.registry)
