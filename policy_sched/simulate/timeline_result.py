"""Result of a timeline simulation: per-pod timeline, evictions, and resource usage over time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PolicySchedError
from policy_sched.model import counted, datetime_of, quantity_text
from policy_sched.report import Document, table
from policy_sched.simulate.report import AppliedPolicy, policy_document, policy_lines


class PodTimeline(msgspec.Struct, gc=False):
    """One pod; times are nanoseconds since 1970, None for events that did not happen."""

    pod: str
    priority: int
    created: int
    bound: int | None = None
    ended: int | None = None
    node: str = ""
    evicted: bool = False
    attempts: int = 0
    """The number of attempts."""
    message: str = ""
    """Why the last one failed."""

    @property
    def waited(self) -> int | None:
        """Nanoseconds from creation to binding."""
        return None if self.bound is None else self.bound - self.created


class TimelineEviction(msgspec.Struct, frozen=True):
    """A preemption: a pod, and the victims on the node that it is nominated to."""

    at: int
    pod: str
    node: str
    victims: tuple[str, ...]


@dataclass(slots=True)
class StepFunction:
    """An amount that changes at moments and is constant in between; 0 before the first."""

    times: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def note(self, time: int, value: int) -> None:
        """Set the amount from ``time`` on; times do not decrease."""
        times, values = self.times, self.values
        if values:
            if values[-1] == value:
                return
            if times[-1] == time:
                values[-1] = value
                return
        times.append(time)
        values.append(value)

    def at(self, time: int) -> int:
        """Return the amount at a time."""
        index = bisect_right(self.times, time)
        return self.values[index - 1] if index else 0

    def summed(self, edges: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return mean and maximum between neighbouring edges, each of shape (k - 1,).

        ``edges``: shape (k,), ascending nanoseconds.
        """
        if not self.times:
            return np.zeros(edges.size - 1), np.zeros(edges.size - 1, np.int64)
        times = np.concatenate(([edges[0]], np.asarray(self.times, np.int64)))
        values = np.concatenate(([0], np.asarray(self.values, np.int64)))
        seconds = (times - times[0]) / 1e9
        total = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(seconds))))
        first = np.searchsorted(times, edges, side="right") - 1
        until = total[first] + values[first] * ((edges - times[first]) / 1e9)
        mean = np.diff(until) / (np.diff(edges) / 1e9)
        last = np.searchsorted(times, edges, side="left")
        peaks = [values[a:b].max() for a, b in zip(first[:-1], last[1:], strict=True)]
        return mean, np.asarray(peaks, np.int64)


class TimelineResult(msgspec.Struct, frozen=True):
    """A finished simulation."""

    start: int
    """Nanoseconds since 1970, as ``end``."""
    end: int
    nodes: int
    lives: Sequence[PodTimeline]
    """Every pending pod, in order of arrival."""
    evictions: Sequence[TimelineEviction]
    pending: StepFunction
    running: StepFunction
    used: Mapping[str, StepFunction]
    """By resource, in the scheduler's units, as ``allocatable``."""
    allocatable: Mapping[str, StepFunction]
    seconds: float
    """The duration of the simulation; everything else is deterministic."""
    policies: tuple[AppliedPolicy, ...] = ()
    """What each policy applied to."""
    bucket: int | None = None
    """Nanoseconds of the buckets of the report, some two dozen of them unless given."""

    def text_lines(self) -> Iterator[str]:
        """Yield the result as text."""
        lost = never_placed(self)
        yield self.placed_text()
        yield f"  makespan      {duration_text(self.end - self.start)}"
        yield f"  attempts      {sum(life.attempts for life in self.lives)}"
        yield f"  preemptions   {len(self.evictions)}, of {counted(victims_of(self), 'pod')}"
        yield f"  longest queue {max(self.pending.values, default=0)}"
        yield ""
        yield from _upper(waiting_rows(self))
        yield ""
        yield from _upper(bucket_rows(Buckets.of(self), self))
        if self.policies:
            yield ""
            yield from policy_lines(self.policies)
        if self.evictions:
            yield ""
            yield "Preemptions:"
            lines = [
                f"  {duration_text(eviction.at - self.start)}  {eviction.pod} takes"
                f" {eviction.node} from {', '.join(eviction.victims)}"
                for eviction in self.evictions
            ]
            yield from _shortened(lines)
        if lost:
            yield ""
            yield "Never placed:"
            yield from _shortened([f"  {life.pod}  {life.message}" for life in lost])

    def placed_text(self) -> str:
        """Return how many pods had a node."""
        pods, lost = len(self.lives), len(never_placed(self))
        return f"{pods - lost:,} of {counted(pods, 'pod')} placed on {counted(self.nodes, 'node')}"

    def document(self) -> Document:
        """Return the result as plain data; amounts are quantities."""
        lost = never_placed(self)
        return {
            "summary": {
                "start": _timestamp(self.start),
                "makespan": _seconds(self.end - self.start),
                "nodes": self.nodes,
                "pods": len(self.lives),
                "placed": len(self.lives) - len(lost),
                "ended": sum(life.ended is not None and not life.evicted for life in self.lives),
                "attempts": sum(life.attempts for life in self.lives),
                "preemptions": len(self.evictions),
                "evicted": victims_of(self),
                "longestQueue": max(self.pending.values, default=0),
                "policies": policy_document(self.policies),
            },
            "waiting": {
                "all": _waiting(WaitingTimes.of(self.lives)),
                "byPriority": {str(p): _waiting(w) for p, w in waiting_by_priority(self).items()},
            },
            "buckets": list(_bucket_documents(Buckets.of(self), self)),
            "preemptions": [
                {
                    "at": _seconds(eviction.at - self.start),
                    "pod": eviction.pod,
                    "node": eviction.node,
                    "victims": list(eviction.victims),
                }
                for eviction in self.evictions
            ],
            "neverPlaced": [{"pod": life.pod, "message": life.message} for life in lost],
        }

    def records(self) -> Iterator[Document]:
        """Yield the result of each pod, in order of arrival."""
        for life in self.lives:
            yield _life(life, self)

    def speed_line(self) -> str:
        """Return the speed of the simulation."""
        attempts = sum(life.attempts for life in self.lives)
        span = duration_text(self.end - self.start)
        return f"{span} played in {self.seconds:.1f} s, {attempts} attempts"


SECOND: Final = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
WIDTHS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 56, 112, 365)),
)
"""Round lengths of time for buckets, in nanoseconds."""
WANTED_BUCKETS: Final = 24
MAX_BUCKETS: Final = 100_000


class WaitingTimes(msgspec.Struct, frozen=True):
    """Waiting times of pods for a node, in nanoseconds; pods without a node are not included.

    A percentile is the shortest time within which that percentage of pods was bound.
    """

    pods: int
    p50: int
    p90: int
    p99: int
    longest: int

    @staticmethod
    def of(lives: Iterable[PodTimeline]) -> WaitingTimes:
        """Return the percentiles of some pods; all 0 if none was bound."""
        times = sorted(life.waited for life in lives if life.waited is not None)
        if not times:
            return WaitingTimes(0, 0, 0, 0, 0)
        ranks = (-(-len(times) * percent // 100) - 1 for percent in (50, 90, 99, 100))
        return WaitingTimes(len(times), *(times[rank] for rank in ranks))


class Buckets(msgspec.Struct, frozen=True):
    """Amounts over intervals of equal length; all of shape (k,)."""

    edges: NDArray[np.int64]
    """Nanoseconds since 1970; shape (k + 1,)."""
    pending: NDArray[np.int64]
    """The maximum number of pods in the queue."""
    running: NDArray[np.float64]
    """The mean number of pods on nodes."""
    used: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]
    """The mean and the maximum amount by resource."""
    percent: dict[str, NDArray[np.float64]]
    """The mean share of the allocatable amount."""

    @staticmethod
    def of(result: TimelineResult) -> Buckets:
        """Cut a result into its buckets; the last one is the rest.

        Raises PolicySchedError if there would be more than MAX_BUCKETS.
        """
        width = result.bucket or bucket_width(result)
        count = max(1, -(-(result.end - result.start) // width))
        if count > MAX_BUCKETS:
            raise PolicySchedError(
                f"{count:,} buckets of {duration_text(width)} are too many: "
                f"the play lasts {duration_text(result.end - result.start)}"
            )
        edges = result.start + width * np.arange(count + 1, dtype=np.int64)
        edges[-1] = max(result.end, result.start + 1)
        used, percent = {}, {}
        for name, steps in result.used.items():
            used[name] = steps.summed(edges)
            capacity, _ = result.allocatable.get(name, StepFunction()).summed(edges)
            share = np.divide(used[name][0], capacity, out=np.zeros(count), where=capacity > 0)
            percent[name] = share * 100
        pending = result.pending.summed(edges)[1]
        return Buckets(edges, pending, result.running.summed(edges)[0], used, percent)


def bucket_width(result: TimelineResult) -> int:
    """Return a round length of time, in nanoseconds, that gives some two dozen buckets."""
    span = result.end - result.start
    return next((w for w in WIDTHS if w * WANTED_BUCKETS >= span), WIDTHS[-1])


def waiting_by_priority(result: TimelineResult) -> dict[int, WaitingTimes]:
    """Return the waiting times by priority, the highest first."""
    lives: defaultdict[int, list[PodTimeline]] = defaultdict(list)
    for life in result.lives:
        lives[life.priority].append(life)
    return {priority: WaitingTimes.of(lives[priority]) for priority in sorted(lives, reverse=True)}


def never_placed(result: TimelineResult) -> list[PodTimeline]:
    """Return the pods without a node."""
    return [life for life in result.lives if life.bound is None]


def victims_of(result: TimelineResult) -> int:
    """Return the number of evicted pods."""
    return sum(len(eviction.victims) for eviction in result.evictions)


def duration_text(nanoseconds: int) -> str:
    """Return a length of time in its two largest units: 2d03h, 1h05m, 1m30s; 12.5s below that."""
    if nanoseconds < _MINUTE:
        return f"{nanoseconds / SECOND:.3f}".rstrip("0").rstrip(".") + "s"
    days, rest = divmod(nanoseconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest // SECOND:02}s"


SHOWN: Final = 10
"""Evictions and pods without a node that the text lists; JSON has all of them."""


def _upper(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table whose headings are in capitals; all columns but the first are numbers."""
    head, *others = rows
    yield from table([[name.upper() for name in head], *others], range(1, len(head)))


def waiting_rows(result: TimelineResult) -> list[list[str]]:
    """Return headings and rows of waiting times: of all pods, and by priority."""
    rows = [["Waiting", "Pods", "p50", "p90", "p99", "Max"]]
    by_priority = waiting_by_priority(result)
    named = {f"priority {priority}": waiting for priority, waiting in by_priority.items()}
    if len(named) != 1:
        named = {"all": WaitingTimes.of(result.lives), **named}
    for name, w in named.items():
        times = (duration_text(time) for time in (w.p50, w.p90, w.p99, w.longest))
        rows.append([name, str(w.pods), *times])
    return rows


def shown_resources(buckets: Buckets, result: TimelineResult) -> list[str]:
    """Return the resources of which nodes have any."""
    return [name for name in buckets.percent if any(result.allocatable[name].values)]


def bucket_rows(buckets: Buckets, result: TimelineResult) -> list[list[str]]:
    """Return headings and rows of the intervals."""
    shown = shown_resources(buckets, result)
    rows = [["From", "Queue", "Running", *(name.rpartition("/")[2] for name in shown)]]
    for i, start in enumerate(buckets.edges[:-1].tolist()):
        rows.append(
            [
                duration_text(start - result.start),
                str(buckets.pending[i]),
                f"{buckets.running[i]:.1f}",
                *(f"{buckets.percent[name][i]:.1f} %" for name in shown),
            ]
        )
    return rows


def waiting_over(result: TimelineResult, edges: NDArray[np.int64]) -> list[WaitingTimes]:
    """Return the waiting times of the pods that were bound between neighbouring edges."""
    bound = [life for life in result.lives if life.bound is not None]
    times = np.array([life.bound for life in bound], np.int64)
    indexes = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, edges.size - 2)
    within: list[list[PodTimeline]] = [[] for _ in range(edges.size - 1)]
    for life, bucket in zip(bound, indexes.tolist(), strict=True):
        within[bucket].append(life)
    return [WaitingTimes.of(lives) for lives in within]


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"  ... and {len(lines) - SHOWN} more"


def _bucket_documents(buckets: Buckets, result: TimelineResult) -> Iterator[dict[str, object]]:
    for i, start in enumerate(buckets.edges[:-1].tolist()):
        yield {
            "from": _seconds(start - result.start),
            "queue": int(buckets.pending[i]),
            "running": round(float(buckets.running[i]), 3),
            "resources": {
                name: {
                    "mean": quantity_text(name, round(mean[i])),
                    "peak": quantity_text(name, int(peak[i])),
                    "percent": round(float(buckets.percent[name][i]), 2),
                }
                for name, (mean, peak) in buckets.used.items()
            },
        }


def _life(life: PodTimeline, result: TimelineResult) -> dict[str, object]:
    def since_start(time: int | None) -> float | None:
        return None if time is None else _seconds(time - result.start)

    return {
        "pod": life.pod,
        "priority": life.priority,
        "created": since_start(life.created),
        "bound": since_start(life.bound),
        "ended": since_start(life.ended),
        "waited": None if life.waited is None else _seconds(life.waited),
        "node": life.node or None,
        "attempts": life.attempts,
        "evicted": life.evicted,
        "message": life.message,
    }


def _waiting(times: WaitingTimes) -> dict[str, object]:
    return {
        "pods": times.pods,
        "p50": _seconds(times.p50),
        "p90": _seconds(times.p90),
        "p99": _seconds(times.p99),
        "max": _seconds(times.longest),
    }


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / SECOND


def _timestamp(nanoseconds: int) -> str:
    return datetime_of(nanoseconds).strftime("%Y-%m-%dT%H:%M:%SZ")
