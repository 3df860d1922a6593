"""Result of a timeline simulation: per-pod timeline, evictions, and resource usage over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PolicySchedError
from policy_sched.simulate.policy_application import Applied


@dataclass(slots=True)
class PodTimeline:
    """One pod; times are nanoseconds since 1970, None for what did not happen.

    ``attempts``: how often the scheduler tried; ``message``: why the last attempt failed.
    """

    pod: str
    priority: int
    created: int
    bound: int | None = None
    ended: int | None = None
    node: str = ""
    evicted: bool = False
    attempts: int = 0
    message: str = ""

    @property
    def waited(self) -> int | None:
        """Nanoseconds from creation to binding."""
        return None if self.bound is None else self.bound - self.created


@dataclass(frozen=True, slots=True)
class Eviction:
    """A preemption: a pod, and the victims on the node that it is nominated to."""

    at: int
    pod: str
    node: str
    victims: tuple[str, ...]


@dataclass(slots=True)
class StepFunction:
    """An amount that changes at moments and stays in between; 0 before the first of them."""

    times: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def note(self, time: int, value: int) -> None:
        """The amount is ``value`` from ``time`` on; times do not go back."""
        if self.values and self.values[-1] == value:
            return
        if self.times and self.times[-1] == time:
            self.values[-1] = value
            return
        self.times.append(time)
        self.values.append(value)

    def summed(self, edges: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return mean and greatest amount between neighbouring edges, each of shape (k - 1,).

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


@dataclass(frozen=True, slots=True)
class TimelineResult:
    """A finished play from ``start`` to ``end``, nanoseconds since 1970.

    ``lives``: every pod that was to be placed, in order of arrival. ``used`` and ``allocatable``
    are by resource, in the scheduler's units. ``policies``: what each policy applied to.
    ``seconds`` is what playing took; everything else is deterministic.
    """

    start: int
    end: int
    nodes: int
    lives: Sequence[PodTimeline]
    evictions: Sequence[Eviction]
    pending: StepFunction
    running: StepFunction
    used: Mapping[str, StepFunction]
    allocatable: Mapping[str, StepFunction]
    seconds: float
    policies: tuple[Applied, ...] = ()


SECOND: Final = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
WIDTHS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 56, 112, 365)),
)
"""Lengths of time, in nanoseconds, in which people think."""
WANTED_BUCKETS: Final = 24
MAX_BUCKETS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long pods waited for a node, in nanoseconds; pods that got none are not in it.

    Percentiles are the shortest time within which so many of a hundred pods were bound.
    """

    pods: int
    p50: int
    p90: int
    p99: int
    longest: int

    @staticmethod
    def of(lives: Iterable[PodTimeline]) -> Waiting:
        """Return the percentiles of some pods; all 0 where none was bound."""
        times = sorted(life.waited for life in lives if life.waited is not None)
        if not times:
            return Waiting(0, 0, 0, 0, 0)
        ranks = (-(-len(times) * percent // 100) - 1 for percent in (50, 90, 99, 100))
        return Waiting(len(times), *(times[rank] for rank in ranks))


@dataclass(frozen=True, slots=True)
class Buckets:
    """Amounts over equal stretches of time; all of shape (k,).

    ``edges``, shape (k + 1,): nanoseconds since 1970. ``pending`` is the greatest number of pods
    in the queue, ``running`` the mean number of pods on nodes, ``used`` the mean and the greatest
    amount by resource, ``percent`` the mean share of what nodes can give.
    """

    edges: NDArray[np.int64]
    pending: NDArray[np.int64]
    running: NDArray[np.float64]
    used: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]
    percent: dict[str, NDArray[np.float64]]

    @staticmethod
    def of(story: TimelineResult, width: int) -> Buckets:
        """Cut a story into stretches of ``width`` nanoseconds; the last one is the rest.

        Raises PolicySchedError if there would be more than MAX_BUCKETS.
        """
        count = max(1, -(-(story.end - story.start) // width))
        if count > MAX_BUCKETS:
            raise PolicySchedError(
                f"{count:,} buckets of {duration_text(width)} are too many: "
                f"the play lasts {duration_text(story.end - story.start)}"
            )
        edges = story.start + width * np.arange(count + 1, dtype=np.int64)
        edges[-1] = max(story.end, story.start + 1)
        used, percent = {}, {}
        for name, steps in story.used.items():
            used[name] = steps.summed(edges)
            capacity, _ = story.allocatable.get(name, StepFunction()).summed(edges)
            share = np.divide(used[name][0], capacity, out=np.zeros(count), where=capacity > 0)
            percent[name] = share * 100
        pending = story.pending.summed(edges)[1]
        return Buckets(edges, pending, story.running.summed(edges)[0], used, percent)


def bucket_width(story: TimelineResult) -> int:
    """Return a length of time, in nanoseconds, that cuts the story into some two dozen pieces."""
    span = story.end - story.start
    return next((w for w in WIDTHS if w * WANTED_BUCKETS >= span), WIDTHS[-1])


def waiting_by_priority(story: TimelineResult) -> dict[int, Waiting]:
    """Return the waiting times by priority, the highest first."""
    found: defaultdict[int, list[PodTimeline]] = defaultdict(list)
    for life in story.lives:
        found[life.priority].append(life)
    return {priority: Waiting.of(found[priority]) for priority in sorted(found, reverse=True)}


def never_placed(story: TimelineResult) -> list[PodTimeline]:
    """Return the pods that found no node."""
    return [life for life in story.lives if life.bound is None]


def victims_of(story: TimelineResult) -> int:
    """Return how many pods were evicted."""
    return sum(len(eviction.victims) for eviction in story.evictions)


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
