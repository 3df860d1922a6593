"""Measures scheduling, and turns the measurements into kube-scheduler's metrics.

Theory of operation. An AttemptMetrics observes the scheduler and times it; runners write to a
recorder for each profile. The measurements become metrics in `fold`. Durations are of a monotonic
clock; the time that a pod waited is that of the scheduler's clock.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final
from weakref import WeakSet

from policy_sched.framework import Code, runtime
from policy_sched.instance.observability.kube_scheduler_metrics import UpstreamMetrics
from policy_sched.model import ClusterEvent, PodInfo
from policy_sched.plugins.dynamicresources import ClaimCounts
from policy_sched.scheduler import Attempt, Decision, GroupDecision, Observers, Outcome, Preempt

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
WAITING_ON_PREEMPTION: Final = "waiting_on_preemption"
ERROR: Final = "error"
SAMPLED: Final = 10
"""One of this many cycles measures each plugin (upstream: 10 %)."""
FOLDED_AFTER: Final = 4096
"""Events, hints and requests after which they are folded into buckets even without a scrape.

A standby decides nothing, and still applies all events.
"""
MOST_ATTEMPTS: Final = 15
"""This many attempts or more share one label."""
_VOLUMES: Final = "VolumeBinding"
_STAGES: Final = {
    "PreFilter": "predicate",
    "Filter": "predicate",
    "Reserve": "assume",
    "PreBind": "bind",
}


class AttemptMetrics:
    """Measures one scheduler; ``timer`` returns seconds from a monotonic clock."""

    def __init__(
        self, families: UpstreamMetrics, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self.families = families
        self.timer = timer
        self._cycle = 0
        self._group_began = 0.0
        self._recorders: dict[str, runtime.MetricsRecorder] = {}
        self._runners: WeakSet[runtime.Runner] = WeakSet()
        self._took: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._waited: defaultdict[int, list[float]] = defaultdict(list)
        self._tries: list[float] = []
        self._thought = families.scheduling_algorithm_duration_seconds.taker()
        self._events: dict[str, Callable[[float], None]] = {}
        self._noted = 0
        self.broken: Counter[str] = Counter()
        """Attempts that ended with an error, by the plugin that raised it, as of the last fold."""
        self.claims: ClaimCounts | None = None
        """What DynamicResources counts; None until a scheduler is measured."""

    # What the scheduler tells.

    def runner(self, pipeline: runtime.Pipeline) -> runtime.Runner:
        """Return a runner for a profile's pipeline; the counts of an older one are kept."""
        name = pipeline.scheduler_name
        recorder = self._recorders.get(name)
        if recorder is None:
            recorder = self._recorders[name] = runtime.MetricsRecorder(self.timer)
        self._count_parts()
        runner = runtime.Runner(pipeline, recorder)
        self._runners.add(runner)
        return runner

    def watch(self, observers: Observers) -> None:
        """Measure a scheduler from now on."""
        observers.timer = self.timer
        observers.decided.append(self._decided)
        observers.group_decided.append(self._group_decided)
        observers.group_executed.append(self._group_executed)
        observers.evicted.append(self._evicted)

    def _decided(self, _attempt: Attempt, _decision: Decision, start: float) -> None:
        """Measure a decision; every tenth one measures each plugin as well."""
        self._thought(self.timer() - start)
        self._cycle += 1
        sampled = (self._cycle + 1) % SAMPLED
        if sampled < 2:  # from every tenth cycle until the next
            for runner in self._runners:
                runner.sample(sampled == 0)

    def _group_decided(self, decision: GroupDecision, start: float) -> None:
        """Measure the decision of a group; each of its pods gets the duration of the whole."""
        self._group_began = start
        for member in decision.members:
            member.attempt.began = start
        family = self.families.podgroup_scheduling_algorithm_duration_seconds
        family.take((), [self.timer() - start])

    def _group_executed(self, pod: PodInfo, decision: GroupDecision) -> None:
        """Record the end of a group's attempt."""
        status = decision.status
        failed = WAITING_ON_PREEMPTION if decision.waiting else UNSCHEDULABLE
        result = SCHEDULED if status.ok else failed if status.rejected else ERROR
        labels = (result, pod.scheduler_name)
        families = self.families
        if decision.victims:
            families.preemption_victims.take((), [len(decision.victims)])
        families.podgroup_schedule_attempts_total.values[labels] += 1
        took = self.timer() - self._group_began
        families.podgroup_scheduling_attempt_duration_seconds.take(labels, [took])

    def _evicted(self, _pod: PodInfo, _decision: Preempt, error: str, start: float) -> None:
        """Measure an eviction."""
        result = "error" if error else "success"
        families = self.families
        families.preemption_goroutines_execution_total.values[(result,)] += 1
        families.preemption_goroutines_duration_seconds.take((result,), [self.timer() - start])

    def hint(self, plugin: str, event: str, result: str, seconds: float) -> None:
        """Record the call of a queueing hint."""
        labels = (plugin, event, result)
        self.families.queueing_hint_execution_duration_seconds.take(labels, [seconds])
        self._note()

    # Events of the owner.

    def ended(self, outcome: Outcome, now: int) -> None:
        """Record the end of an attempt; a waiting pod has not ended. ``now``: ns since 1970.

        An attempt ends when its last response comes, not when a step takes that in.
        """
        attempt = outcome.attempt
        if attempt is None or outcome.waiting:
            return
        failed = UNSCHEDULABLE if outcome.status.rejected else ERROR
        result = SCHEDULED if outcome.node else failed
        took = max(0.0, self.timer() - attempt.began - attempt.late / 1e9)
        self._took[result, outcome.pod.scheduler_name].append(took)
        if outcome.node:
            queued = attempt.queued
            self._tries.append(queued.attempts)
            waited = (now - attempt.late - queued.ready_at) / 1e9
            self._waited[min(queued.attempts, MOST_ATTEMPTS)].append(waited)
            if queued.flushed:
                self.families.pod_scheduled_after_flush_total.values[()] += 1
        else:
            self._failed(outcome, attempt)

    def happened(self, events: Iterable[ClusterEvent], seconds: float) -> None:
        """Record the handling of a change: its events, and the duration."""
        for event in events:
            label = event.label
            take = self._events.get(label)
            if take is None:
                family = self.families.event_handling_duration_seconds
                take = self._events[label] = family.taker(label)
            take(seconds)
            self._note()

    def requested(self, code: str, method: str, host: str, seconds: float) -> None:
        """Record a request to the API server."""
        self.families.rest_client_requests_total.values[code, method, host] += 1
        self.families.rest_client_request_duration_seconds.series[method, host].waiting.append(
            seconds
        )
        self._note()

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        """Record a wait for the client's rate limit."""
        self.families.rest_client_rate_limiter_duration_seconds.series[verb, host].waiting.append(
            seconds
        )

    def sized(self, verb: str, host: str, sent: int | None, received: int) -> None:
        """Record the bytes of a request (None: no body) and of its response."""
        if sent is not None:
            self.families.rest_client_request_size_bytes.series[verb, host].waiting.append(sent)
        self.families.rest_client_response_size_bytes.series[verb, host].waiting.append(received)

    # Metrics.

    def fold(self) -> None:
        """Turn all measurements into metrics."""
        families = self.families
        for (result, profile), took in self._took.items():
            families.schedule_attempts_total.values[result, profile] += len(took)
            _move(families.scheduling_attempt_duration_seconds.take, (result, profile), took)
        for attempts, waited in self._waited.items():
            label = f"{MOST_ATTEMPTS}+" if attempts == MOST_ATTEMPTS else str(attempts)
            _move(families.pod_scheduling_sli_duration_seconds.take, (label,), waited)
        _move(families.pod_scheduling_attempts.take, (), self._tries)
        for name, recorder in self._recorders.items():
            self._fold_recorder(name, recorder)
        self._count_parts()
        if self.claims is not None:
            self._fold_claims(self.claims)
        families.fold()

    def _fold_claims(self, counts: ClaimCounts) -> None:
        families = self.families
        for status, count in counts.creates.items():
            families.resourceclaim_creates_total.values[(status,)] = count
        for labels, count in counts.allocations.items():
            families.dra_bindingconditions_allocations_total.values[labels] = count
        for labels, waited in counts.waits.items():
            _move(families.dra_bindingconditions_wait_duration_seconds.take, labels, waited)

    def discard(self) -> None:
        """Drop the measurements of plugins and points since the last `fold`."""
        for recorder in self._recorders.values():
            for lists in (recorder.points, recorder.plugins):
                for took in lists.values():
                    took.clear()
            recorder.broken.clear()
        for runner in self._runners:
            runner.evaluations.clear()

    def _note(self) -> None:
        """Count a measurement, and fold when there are many."""
        self._noted += 1
        if self._noted >= FOLDED_AFTER:
            self._noted = 0
            self.families.fold()

    def _failed(self, outcome: Outcome, attempt: Attempt) -> None:
        decision, families = outcome.decision, self.families
        diagnosis = None if decision is None else getattr(decision, "diagnosis", None)
        if diagnosis is not None and diagnosis.post_filter is not None:
            families.preemption_attempts_total.values[()] += 1
        if isinstance(decision, Preempt):
            families.preemption_victims.take((), [len(decision.victims)])
        if outcome.status.code is Code.ERROR and outcome.status.plugin == _VOLUMES:
            stage = "bind" if attempt.permitted else "assume"
            families.volume_scheduling_stage_error_total.values[(stage,)] += 1

    def _fold_recorder(self, profile: str, recorder: runtime.MetricsRecorder) -> None:
        families = self.families
        for (point, status), took in recorder.points.items():
            labels = (point, status, profile)
            _move(families.framework_extension_point_duration_seconds.take, labels, took)
        for plugin_labels, took in recorder.plugins.items():
            _move(families.plugin_execution_duration_seconds.take, plugin_labels, took)
        for labels_of_wait, waited in recorder.waits.items():
            _move(families.permit_wait_duration_seconds.take, labels_of_wait, waited)
        for (plugin, point), count in recorder.broken.items():
            self.broken[plugin] += count
            if plugin == _VOLUMES and point in _STAGES:
                stage = _STAGES[point]
                families.volume_scheduling_stage_error_total.values[(stage,)] += count
        recorder.broken.clear()

    def _count_parts(self) -> None:
        """Count the plugins that ran in evaluations since the last call.

        A rejected reload makes runners as well, so those in force need not be the latest.
        """
        for runner in self._runners:
            profile = runner.pipeline.scheduler_name
            seen = Counter(runner.evaluations)
            runner.evaluations.clear()
            for (how, parts), count in seen.items():
                self.families.batch_attempts_total.values[profile, how] += count
                for plugin, point in _took_part(runner, parts):
                    self.families.plugin_evaluation_total.values[plugin, point, profile] += count


def _took_part(runner: runtime.Runner, parts: runtime.Parts) -> Iterable[tuple[str, str]]:
    """Yield the plugins that did not skip, each with its extension point."""
    skipped, rejected_by, unscored = parts
    pipeline = runner.pipeline
    for hook in pipeline.at("pre_filter"):
        if hook.plugin not in skipped:
            yield hook.plugin, "PreFilter"
        if hook.plugin == rejected_by:
            return
    if rejected_by:
        return
    yield from _named(runner.active("filter", skipped), "Filter")
    if unscored is not None:
        yield from _named(
            [h for h in pipeline.at("pre_score") if h.plugin not in unscored], "PreScore"
        )
        yield from _named(runner.active("score", unscored), "Score")


def _named(hooks: Iterable[runtime.Hook], point: str) -> Iterable[tuple[str, str]]:
    return ((hook.plugin, point) for hook in hooks)


def _move(
    take: Callable[[tuple[str, ...], Iterable[float]], None],
    labels: tuple[str, ...],
    values: list[float],
) -> None:
    """Copy values to a histogram and clear the list in place: its producers keep it."""
    if values:
        take(labels, values)
        values.clear()
