"""The option ``--now``: the time at which a cluster is looked at."""

from __future__ import annotations

from collections.abc import Callable

from policy_sched.errors import PolicySchedError
from policy_sched.profiles.models import moment_of


def moment(text: str) -> int:
    """Return what --now says, as nanoseconds since 1970. Raises PolicySchedError."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise PolicySchedError(f"--now: {error}") from None


def clock(now: str | None) -> Callable[[], int] | None:
    """Return a clock that stands still at what --now says; None where nothing is said."""
    if now is None:
        return None
    stopped = moment(now)
    return lambda: stopped
