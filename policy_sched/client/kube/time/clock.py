"""A clock that tells the time and never jumps, for deadlines in nanoseconds since 1970.

Theory of operation. It goes on with the monotonic clock. Where the wall clock says something else,
because it was set, this one goes a little faster or slower until both agree again: a pod's backoff
then lasts a tenth longer at most, and not until an hour comes back that was there already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall time (since 1970) and monotonic time, both in nanoseconds."""

    wall: Clock
    monotonic: Clock


SLEW: Final = 10
"""A second lasts between 1 - 1/SLEW and 1 + 1/SLEW seconds while the wall clock is caught up."""


class SteadyClock:
    """Nanoseconds since 1970; each call returns at least what the one before returned."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._at = clocks.monotonic()
        self._time = clocks.wall()

    def __call__(self) -> int:
        """Return the time."""
        now = self._clocks.monotonic()
        passed = now - self._at
        if passed > 0:
            most = passed // SLEW
            behind = self._clocks.wall() - (self._time + passed)
            self._time += passed + max(-most, min(most, behind))
            self._at = now
        return self._time
