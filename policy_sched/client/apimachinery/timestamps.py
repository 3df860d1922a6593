"""Times as the API writes them, from nanoseconds since 1970 and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from policy_sched.model import EPOCH, nanoseconds

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""
_LAST: Final = 253_402_300_799
_FIRST: Final = -62_135_596_800
"""The seconds of the years 9999 and 1, beyond which no time can be written."""


def timestamp(ns: int) -> str:
    """Return metav1.Time's text: whole seconds."""
    return _second(ns // SECOND)


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    seconds = max(_FIRST, min(seconds, _LAST))
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(ns: int) -> str:
    """Return metav1.MicroTime's text: microseconds."""
    return (EPOCH + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parsed(text: str) -> int:
    """Return a timestamp as nanoseconds, in UTC unless it says otherwise. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return nanoseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC))


def readable(text: object) -> int | None:
    """Return a timestamp of a status as nanoseconds, None if it is not there or cannot be read."""
    try:
        return parsed(text) if isinstance(text, str) else None
    except ValueError:
        return None
