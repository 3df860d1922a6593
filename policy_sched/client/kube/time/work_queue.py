"""Clocks, metrics of work queues, and back-off.

A work queue measures how long items wait and how long processing takes, as client-go's does. A
back-off grows with each failure; jitter keeps clients that lost one server from retrying together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

Clock = Callable[[], int]


class Clocks(msgspec.Struct, frozen=True):
    """Wall time (since 1970) and monotonic time, both in nanoseconds."""

    wall: Clock
    monotonic: Clock


SLEW: Final = 10
"""A second lasts between 1 - 1/SLEW and 1 + 1/SLEW seconds while the wall clock is caught up."""


class SteadyClock:
    """Nanoseconds since 1970; each call returns at least what the one before returned."""

    def __init__(self, clocks: Clocks) -> None:
        self._monotonic, self._wall = clocks.monotonic, clocks.wall
        self._at = self._monotonic()
        self._time = self._wall()

    def __call__(self) -> int:
        """Return the time."""
        now = self._monotonic()
        passed = now - self._at
        if passed > 0:
            most = passed // SLEW
            behind = self._wall() - (self._time + passed)
            if behind > most:
                behind = most
            elif behind < -most:
                behind = -most
            self._time += passed + behind
            self._at = now
        return self._time


SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""


class BackoffSchedule(msgspec.Struct, frozen=True):
    """A schedule of pauses, in seconds.

    client-go's reflector has these numbers, but for the first: thousands of kubelets begin with
    0.8 s, while the two or three schedulers of a cluster may come back sooner.

    A pause is multiplied by ``factor`` until it is ``longest``; up to ``jitter`` times the pause
    is added. After ``reset`` seconds without a failure the first pause comes next again.
    """

    first: float = 0.1
    longest: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset: float = 120.0


class BackoffState:
    """The pauses of one thing that fails; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, backoff: BackoffSchedule, now: Callable[[], int], random: Random) -> None:
        self._backoff = backoff
        self._now = now
        self._random = random
        self._pause = backoff.first
        self._last: int | None = None

    def next(self) -> float:
        """Return how many seconds to wait after one more failure."""
        now, backoff = self._now(), self._backoff
        if self._last is not None and now - self._last > backoff.reset * SECOND:
            self._pause = backoff.first
        self._last = now
        pause = self._pause
        self._pause = min(pause * backoff.factor, backoff.longest)
        return pause * (1 + backoff.jitter * self._random.random())

    def succeeded(self) -> None:
        """Reset to the first pause."""
        self._pause = self._backoff.first
        self._last = None


KEPT: Final = 10_000
"""Durations that are kept until the metrics read them."""


class WorkQueueMetrics:
    """The numbers of one queue; ``now`` is monotonic, in nanoseconds. Durations are in seconds."""

    def __init__(self, name: str, now: Callable[[], int]) -> None:
        self.name = name
        self.adds = 0
        self.retries = 0
        self.depth = 0
        self.waited = array("d")
        """How long work waited, since these were emptied; the last ones of many."""
        self.took = array("d")
        """How long work took, since these were emptied; the last ones of many."""
        self._now = now
        self._running: dict[int, int] = {}
        self._begun = 0

    def added(self) -> int:
        """A piece of work was added; return when, which is handed to `begun`."""
        self.adds += 1
        self.depth += 1
        return self._now()

    def begun(self, added: int) -> int:
        """A piece of work is begun; return its number, which is handed to `done`."""
        now = self._now()
        self.depth -= 1
        _keep(self.waited, (now - added) / 1e9)
        self._begun += 1
        self._running[self._begun] = now
        return self._begun

    def done(self, number: int) -> None:
        """A piece of work is done, unless it was given up."""
        began = self._running.pop(number, None)
        if began is not None:
            _keep(self.took, (self._now() - began) / 1e9)

    def given_up(self) -> None:
        """Forget queued and running work."""
        self.depth = 0
        self._running.clear()

    def running(self) -> list[float]:
        """Return for how long work that is not done has been going on."""
        now = self._now()
        return [(now - began) / 1e9 for began in self._running.values()]


def _keep(durations: array[float], seconds: float) -> None:
    """Append a duration; of too many the earlier half is dropped."""
    if len(durations) >= KEPT:
        del durations[: KEPT // 2]
    durations.append(seconds)
