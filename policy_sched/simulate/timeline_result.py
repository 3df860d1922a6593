"""Result of a timeline simulation: per-pod timeline, evictions, and resource usage over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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
