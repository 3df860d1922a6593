"""Spans of time as kubectl shows them: ``5m``, ``3h12m``, ``2d``."""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import SECOND, parsed

UNKNOWN: Final = "<unknown>"


def age(text: object, now: int) -> str:
    """Return how long ago a timestamp is; ``now`` in ns since 1970."""
    if not isinstance(text, str) or not text:
        return UNKNOWN
    try:
        return span((now - parsed(text)) // SECOND)
    except ValueError:
        return UNKNOWN


def span(seconds: int) -> str:
    """Return a number of seconds in at most two units (duration.HumanDuration)."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
