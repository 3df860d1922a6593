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
_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]++)?+)(ns|us|\N{MICRO SIGN}s|ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})++")
_NUMBER: Final = re.compile(r"[0-9]++(?:\.[0-9]++)?+")
#: Characters of a text that is read; a longer one says no more.
_MAX_TEXT: Final = 256
_SHOWN: Final = 40
_MAX_INT64: Final = 2**63 - 1


def nanoseconds_of(text: str) -> int:
    """Return a duration in nanoseconds; parts as in Go's durations, none of them negative.

    Raises ValueError if the text is no duration, or one of more than 292 years, as in Go.
    """
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:_SHOWN] + '...'!r} is not a duration: {len(text)} characters")
    if _NUMBER.fullmatch(text):
        found = round(Decimal(text) * _UNITS["s"])
    elif _DURATION.fullmatch(text):
        parts = _PART.finditer(text)
        found = sum(round(Decimal(part[1]) * _UNITS[part[2]]) for part in parts)
    else:
        raise ValueError(f'{text!r} is not a duration; write it as "90s", "1h30m" or "2.5"')
    if found > _MAX_INT64:
        raise ValueError(f"{text!r} is longer than durations can be: 292 years")
    return found
