"""One replay: recorded traffic decided again by a set of policies, and what is measured of it.

Theory of operation. `replay` plays `Traffic` on a simulation in virtual time. What it measures is
cut into windows of time, so that a change can be seen to come and to go. Of nodes with equal scores
the recorded one is taken, else ``seed`` chooses.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from policy_sched.experiments import MeasureRules, Series, Sums
from policy_sched.model import SECOND
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import Compilation
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Scheduler
from policy_sched.simulate import (
    PodTimeline,
    Timeline,
    TimelineResult,
    Traffic,
    WaitingTimes,
    bucket_width,
    replaying,
    waiting_over,
)

MAX_WINDOWS: Final = 10_000


class Window(msgspec.Struct, frozen=True, rename="camel"):
    """What happened from ``start`` until before ``end``, in nanoseconds since 1970."""

    start: int
    end: int
    arrived: int
    """Pods that came."""
    bound: int
    """Pods that got a node."""
    unschedulable: int
    """Attempts that found no node."""
    errors: int
    """Attempts that failed with an error."""
    evicted: int
    """Pods that were evicted for others."""
    waiting_p50: float | None
    """Seconds that half of the pods waited at most that got a node; None if none did."""
    waiting_p99: float | None
    """The same of 99 in 100 pods."""
    longest_queue: int
    """Pods that waited at the same time, at most."""
    used: dict[str, float]
    """By resource, what pods requested on average, in percent of what nodes have."""
    measures: dict[str, float]
    """By policy and name, the mean of each measure that a policy states."""

    @property
    def decisions(self) -> int:
        """Attempts in all."""
        return self.bound + self.unschedulable + self.errors


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of traffic under a set of policies."""

    result: TimelineResult
    lives: Mapping[str, PodTimeline]
    """By UID, the pods that were decided."""
    windows: tuple[Window, ...]
    counts: Counter[str]
    """Attempts in all: bound, unschedulable and error; and evicted pods."""
    measures: dict[str, float]
    """The mean of each measure that a policy states."""


@dataclass(slots=True)
class _Attempts:
    """Counts attempts that found no node, with their times."""

    scheduler: Scheduler
    unschedulable: list[int] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Look on."""
        self.scheduler.observers.decided.append(self._decided)
        self.scheduler.observers.group_decided.append(self._group_decided)

    def _decided(self, attempt: Attempt, decision: Decision, start: float) -> None:
        del attempt, start
        if not isinstance(decision, Bind):
            rejected = decision.status.rejected
            (self.unschedulable if rejected else self.errors).append(self.scheduler.handle.now())

    def _group_decided(self, decision: GroupDecision, start: float) -> None:
        for member in decision.members:
            self._decided(member.attempt, member.decision, start)


def replay(
    traffic: Traffic,
    plans: Sequence[CompiledPlan],
    *,
    seed: int = 0,
    width: int | None = None,
    measures: Mapping[str, MeasureRules] | None = None,
    compiled_by_hash: Mapping[str, Compilation] | None = None,
) -> Replay:
    """Decide recorded traffic again, with ``plans``.

    ``width``: nanoseconds of a window, a round length that gives some two dozen unless given.
    ``measures``: rules over nodes whose sums are measured. ``compiled_by_hash``: what comes into
    force where the recording says so. Raises PolicySchedError if a decision cannot be executed.
    """
    started = time.perf_counter()
    timeline = replaying(traffic, plans, seed)
    timeline.compiled_by_hash = compiled_by_hash or {}
    scheduler = timeline.scheduler
    attempts = _Attempts(scheduler)
    rules, series = measures or {}, Series.of(list(measures or {}))
    stops = None
    if rules:
        sums = Sums(scheduler.cache.nodes, scheduler.cache.pods)
        levels = [sums.level(name, rule) for name, rule in rules.items()]

        def stops(now: Timeline) -> bool:
            series.note(now.now, 0.0, (level() for level in levels))
            return False

    timeline.run(stops=stops)
    result = timeline.result(time.perf_counter() - started)
    counts = Counter(
        bound=timeline.placed,
        unschedulable=len(attempts.unschedulable),
        error=len(attempts.errors),
        evicted=timeline.evicted,
    )
    edges = _edges(result, width)
    return Replay(
        result,
        timeline.lives,
        _windows(result, edges, attempts, series),
        counts,
        {name: series.summary(i, "Mean", result.end) or 0.0 for i, name in enumerate(rules)},
    )


def _edges(result: TimelineResult, width: int | None) -> list[int]:
    """Return the bounds of windows, from the start to the end."""
    span = max(1, result.end - result.start)
    wide = max(width or bucket_width(result), -(-span // MAX_WINDOWS))
    edges = [*range(result.start, result.start + span, wide), result.start + span]
    if len(edges) > 2 and edges[-1] - edges[-2] < wide // 100:
        del edges[-2]  # a rest that is no window of its own
    return edges


def _windows(
    result: TimelineResult, edges: Sequence[int], attempts: _Attempts, series: Series
) -> tuple[Window, ...]:
    bounds = np.array(edges, np.int64)
    lives = result.lives
    arrived = _counted([life.created for life in lives], edges)
    evicted = Counter[int]()
    for eviction in result.evictions:
        evicted[_index(eviction.at, edges)] += len(eviction.victims)
    unschedulable, errors = (
        _counted(of, edges) for of in (attempts.unschedulable, attempts.errors)
    )
    waits = waiting_over(result, bounds)
    pending = result.pending.summed(bounds)[1].tolist()
    used = {}
    for name, steps in result.used.items():
        mean, capacity = steps.summed(bounds)[0], result.allocatable[name].summed(bounds)[0]
        share = np.divide(mean, capacity, out=np.zeros_like(mean), where=capacity > 0)
        used[name] = (100 * share).tolist()
    means = {name: _means(series, i, edges) for i, name in enumerate(series.names)}
    return tuple(
        Window(
            start=edges[i],
            end=edges[i + 1],
            arrived=arrived[i],
            bound=waits[i].pods,
            unschedulable=unschedulable[i],
            errors=errors[i],
            evicted=evicted[i],
            waiting_p50=_seconds(waits[i], waits[i].p50),
            waiting_p99=_seconds(waits[i], waits[i].p99),
            longest_queue=pending[i],
            used={name: round(shares[i], 6) for name, shares in used.items()},
            measures={name: values[i] for name, values in means.items()},
        )
        for i in range(len(edges) - 1)
    )


def _seconds(waits: WaitingTimes, nanoseconds: int) -> float | None:
    return nanoseconds / SECOND if waits.pods else None


def _index(at: int, edges: Sequence[int]) -> int:
    return min(bisect_right(edges, at) - 1, len(edges) - 2)


def _counted(times: Sequence[int], edges: Sequence[int]) -> Counter[int]:
    return Counter(_index(at, edges) for at in times)


def _means(series: Series, index: int, edges: Sequence[int]) -> list[float]:
    """Return the mean over time of a measure in each window; it holds until its next event."""
    if not series.times:
        return [0.0] * (len(edges) - 1)
    times = np.array([edges[0], *series.times], np.int64)
    values = np.array([series.values[index][0], *series.values[index]], np.float64)
    total = np.concatenate(([0.0], np.cumsum(values[:-1] * (np.diff(times) / SECOND))))
    bounds = np.array(edges, np.int64)
    first = np.searchsorted(times, bounds, side="right") - 1
    until = total[first] + values[first] * ((bounds - times[first]) / SECOND)
    return [round(v, 6) for v in (np.diff(until) / (np.diff(bounds) / SECOND)).tolist()]
