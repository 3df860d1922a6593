"""Times as the API writes them, from nanoseconds since 1970 and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from policy_sched.model.meta import EPOCH, nanoseconds

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""


def timestamp(ns: int) -> str:
    """Return metav1.Time's text: whole seconds."""
    return (EPOCH + timedelta(seconds=ns // SECOND)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(ns: int) -> str:
    """Return metav1.MicroTime's text: microseconds."""
    return (EPOCH + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parsed(text: str) -> int:
    """Return a timestamp as nanoseconds. Raises ValueError if it is none."""
    return nanoseconds(datetime.fromisoformat(text).astimezone(UTC))
