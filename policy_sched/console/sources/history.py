"""Queue lengths and decisions over time, sampled while the console runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

KEPT: Final = 900
"""Samples that are kept: a quarter of an hour at one each second."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """The lengths of the queues at a time (nanoseconds since 1970), and the decisions so far."""

    time: int
    lengths: Mapping[str, int]
    decisions: int


@dataclass(slots=True)
class History:
    """The last samples, the oldest first."""

    samples: deque[QueueSample] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, sample: QueueSample) -> None:
        """Keep a sample, unless time stands still."""
        if not self.samples or sample.time > self.samples[-1].time:
            self.samples.append(sample)

    def rates(self) -> list[tuple[int, float]]:
        """Return the decisions per second between each two samples, at the time of the second."""
        found = []
        samples = list(self.samples)
        for before, after in pairwise(samples):
            seconds = (after.time - before.time) / 1e9
            found.append((after.time, max(0, after.decisions - before.decisions) / seconds))
        return found

    def rate(self, seconds: float = 10.0) -> float | None:
        """Return the decisions per second over the last seconds; None without two samples."""
        samples = list(self.samples)
        if len(samples) < 2:
            return None
        last = samples[-1]
        first = next(sample for sample in samples if last.time - sample.time <= seconds * 1e9)
        if first is last:
            first = samples[-2]
        return max(0, last.decisions - first.decisions) / ((last.time - first.time) / 1e9)
