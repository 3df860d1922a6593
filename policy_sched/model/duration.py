"""Durations as people write them: "90s", "1h30m", "250ms", or a plain number of seconds."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

#: The annotation that says how long a simulated pod runs before it has succeeded.
DURATION_ANNOTATION: Final = "policysched.dev/duration"

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|\N{MICRO SIGN}s|ms|s|m|h)")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def nanoseconds_of(text: str) -> int:
    """Return a duration in nanoseconds; parts as in Go's durations, none of them negative.

    Raises ValueError if the text is no duration.
    """
    if _NUMBER.fullmatch(text):
        return round(Decimal(text) * _UNITS["s"])
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f'{text!r} is not a duration; write it as "90s", "1h30m" or "2.5"')
    return sum(round(Decimal(part[1]) * _UNITS[part[2]]) for part in parts)
