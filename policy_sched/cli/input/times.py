"""Durations and points in time on the command line."""

from __future__ import annotations

from collections.abc import Callable

from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.model import nanoseconds_of
from policy_sched.profiles.models import moment_of


def nanoseconds(text: str, flag: str) -> int:
    """Return a duration as Go's flags have them, ``10s`` or ``5m0s``. Raises ClusterError."""
    try:
        return nanoseconds_of(text)
    except ValueError as error:
        raise ClusterError(f"{flag}: {error}") from None


def moment(text: str) -> int:
    """Return the value of --now in nanoseconds since 1970. Raises PolicySchedError."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise PolicySchedError(f"--now: {error}") from None


def clock(now: str | None) -> Callable[[], int] | None:
    """Return a clock that stands still at the value of --now; None without a value."""
    if now is None:
        return None
    stopped = moment(now)
    return lambda: stopped
