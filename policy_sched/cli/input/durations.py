"""Durations on the command line, as Go's flags have them."""

from __future__ import annotations

from policy_sched.errors import ClusterError
from policy_sched.model import nanoseconds_of


def nanoseconds(text: str, flag: str) -> int:
    """Return a duration such as ``10s`` or ``5m0s`` in nanoseconds. Raises ClusterError."""
    try:
        return nanoseconds_of(text)
    except ValueError as error:
        raise ClusterError(f"{flag}: {error}") from None
