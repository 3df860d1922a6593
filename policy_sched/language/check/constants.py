"""Checks of constant texts that a function reads: durations, quantities, patterns, selectors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import re2

from policy_sched.language.diagnostics import MAX_PATTERN_BYTES
from policy_sched.model import parse as parse_quantity
from policy_sched.model import parse_selector

_DURATION_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_DURATION_PART.pattern})++)")
_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.IGNORECASE
)
_NUMBER: Final = r"(?:0|[1-9]\d*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_DURATION_SECONDS: Final = 315_576_000_000  # ten thousand years, as CEL's durations


def bad_duration(text: str) -> str | None:
    """Return what is wrong with a Go duration such as "1h30m", or None."""
    if not _DURATION.fullmatch(text):
        return 'is not a duration such as "90s", "5m" or "1h30m"'
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(text))
    return "is out of range" if seconds > _MAX_DURATION_SECONDS else None


def bad_timestamp(text: str) -> str | None:
    """Return what is wrong with an RFC 3339 time, or None; years run from 1 to 9999 in UTC."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return 'is not a time such as "2024-05-01T12:00:00Z"'
    zone = "+00:00" if found[3] in "zZ" else found[3]
    try:
        datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return f"is not a time: {error}"
    return None


def bad_quantity(text: str) -> str | None:
    """Return what is wrong with a Kubernetes quantity, or None."""
    try:
        parse_quantity(text)
    except ValueError:
        return 'is not a quantity such as "500m", "2" or "10Gi"'
    return None


def bad_semver(text: str) -> str | None:
    """Return what is wrong with a semantic version, or None."""
    return None if _SEMVER.fullmatch(text) else 'is not a version such as "1.36.0"'


def bad_selector(text: str) -> str | None:
    """Return what is wrong with a label selector's text, or None."""
    try:
        parse_selector(text)
    except ValueError as error:
        return f'is not a label selector such as "tier in (web, api), !legacy": {error}'
    return None


@functools.lru_cache(maxsize=1024)
def bad_pattern(text: str) -> str | None:
    """Return what is wrong with an RE2 pattern, or None."""
    if len(text.encode()) > MAX_PATTERN_BYTES:
        return f"is a pattern of more than {MAX_PATTERN_BYTES} bytes"
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"is not an RE2 pattern: {words}"
    return None


#: For an overload: which argument is checked where it is a constant, and how.
CHECKS: Final[dict[str, tuple[int, Callable[[str], str | None]]]] = {
    "duration_string": (0, bad_duration),
    "timestamp_string": (0, bad_timestamp),
    "quantity_string": (0, bad_quantity),
    "semver_string": (0, bad_semver),
    "selector_string": (0, bad_selector),
    "matches_string_string": (1, bad_pattern),
    "find_string_string": (1, bad_pattern),
}
