"""How long to wait before something is tried again: longer each time, and never quite the same.

The jitter keeps clients that lost one server together from coming back together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""


@dataclass(frozen=True, slots=True)
class Backoff:
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

    def __init__(self, backoff: Backoff, now: Callable[[], int], random: Random) -> None:
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
        """Begin with the first pause again."""
        self._pause = self._backoff.first
        self._last = None
