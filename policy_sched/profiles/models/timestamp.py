"""Moments that people write: RFC 3339, as in Kubernetes objects."""

from __future__ import annotations

from typing import Final

from policy_sched.language.stdlib import timestamp_of_text
from policy_sched.language.values import Fault

DEFAULT_NOW: Final = "2026-01-01T00:00:00Z"
"""The time of tests and simulations that name none."""
_LAST: Final = 2**63 - 1


def moment_of(text: str) -> int:
    """Return a moment as nanoseconds since 1970. Raises ValueError, which says what is wrong."""
    try:
        moment = timestamp_of_text(text)
    except Fault:
        raise ValueError(f'"{text}" is not a time such as "{DEFAULT_NOW}"') from None
    if not 0 <= moment <= _LAST:
        raise ValueError(f'"{text}" is out of range: times run from 1970 to 2262')
    return moment
