"""The oracle's times: durations and timestamps as int nanoseconds, read and printed as in CEL."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .oracle_values import INT_MAX, INT_MIN, OracleError, int64

SECOND: Final = 10**9
#: CEL's timestamps run from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z.
FIRST: Final = -62135596800 * SECOND
LAST: Final = 253402300799 * SECOND + SECOND - 1
UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def in_calendar(nanoseconds: int) -> int:
    """Return a timestamp, or overflow outside the years 1 to 9999."""
    if not FIRST <= nanoseconds <= LAST:
        raise OracleError("overflow")
    return nanoseconds


def in_duration(nanoseconds: int) -> int:
    """Return a duration, or overflow outside int64 nanoseconds (about 292 years)."""
    return int64(nanoseconds)


def duration_of_text(text: str) -> int:
    """Read Go's duration notation: ``1h30m``, ``-1.5s``, ``0``."""
    body = text[1:] if text[:1] in {"+", "-"} else text
    if body == "0":
        return 0
    parts = re.findall(r"([0-9]*\.?[0-9]*)(ns|us|µs|μs|ms|s|m|h)", body)
    if not parts or "".join(n + u for n, u in parts) != body:
        raise OracleError("conversion")
    if any(n in {"", "."} for n, _ in parts):
        raise OracleError("conversion")
    total = sum(
        int(Fraction("0" + n if n[0] == "." else n.rstrip(".")) * UNITS[u]) for n, u in parts
    )
    if total > INT_MAX:
        raise OracleError("conversion")
    return -total if text.startswith("-") else total


def timestamp_of_text(text: str) -> int:
    """Read RFC 3339, with up to nine fractional digits kept."""
    found = re.fullmatch(
        r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text
    )
    if found is None:
        raise OracleError("conversion")
    *numbers, fraction, zone = found.groups()
    try:
        moment = datetime(*(int(n) for n in numbers), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError as error:
        raise OracleError("conversion") from error
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            raise OracleError("conversion")
        offset = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    whole = moment - EPOCH
    seconds = whole.days * 86400 + whole.seconds - offset
    value = seconds * SECOND + int((fraction or "")[:9].ljust(9, "0"))
    if not FIRST <= value <= LAST:
        raise OracleError("conversion")
    return value


LAYOUTS: Final = {
    "2006-01-02": r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    "02.01.2006": r"(?P<d>\d\d)\.(?P<m>\d\d)\.(?P<y>\d{4})",
    "1 15h": r"(?P<m>\d\d?) (?P<h>\d\d?)h",
}
"""The layouts of random rules."""


def timestamp_in_layout(text: str, layout: str) -> int:
    """Read a moment in one of the layouts above; other random texts name no year, so no moment."""
    found = re.fullmatch(LAYOUTS.get(layout, r"(?!)"), text, re.ASCII)
    if found is None:
        raise OracleError("conversion")
    part = {"y": "0", "m": "1", "d": "1", "h": "0", **found.groupdict()}
    try:
        moment = datetime(*(int(part[key]) for key in "ymdh"), tzinfo=UTC)
    except ValueError as error:
        raise OracleError("conversion") from error
    return int((moment - EPOCH).total_seconds()) * SECOND


def text_of_duration(nanoseconds: int) -> str:
    """Print seconds with as many decimals as needed: ``1.5s``."""
    seconds, rest = divmod(abs(nanoseconds), SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if nanoseconds < 0 else ''}{seconds}{fraction}s"


def text_of_timestamp(nanoseconds: int) -> str:
    """Print RFC 3339 in UTC with as many decimals as needed."""
    seconds, rest = divmod(nanoseconds, SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    moment = EPOCH + timedelta(seconds=seconds)
    return (
        f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T"
        f"{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}{fraction}Z"
    )


def zone_of_text(text: str) -> tzinfo:
    """Read a zone: an IANA name, or an offset such as ``-05:30`` or ``02:00``."""
    found = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", text)
    if found is not None:
        minutes = int(found[2]) * 60 + int(found[3])
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise OracleError("conversion") from error


def calendar_part(part: str, nanoseconds: int, zone: str = "UTC") -> int:
    """Return a part of a timestamp's date or time of day by its CEL method name."""
    seconds, rest = divmod(nanoseconds, SECOND)
    try:
        moment = (EPOCH + timedelta(seconds=seconds)).astimezone(zone_of_text(zone))
    except OverflowError as error:
        raise OracleError("overflow") from error
    return {
        "getFullYear": moment.year,
        "getMonth": moment.month - 1,
        "getDate": moment.day,
        "getDayOfMonth": moment.day - 1,
        "getDayOfWeek": moment.isoweekday() % 7,
        "getDayOfYear": moment.timetuple().tm_yday - 1,
        "getHours": moment.hour,
        "getMinutes": moment.minute,
        "getSeconds": moment.second,
        "getMilliseconds": rest // 10**6,
    }[part]


def duration_part(part: str, nanoseconds: int) -> int:
    """Return a duration in whole hours, minutes or seconds; or its milliseconds' part."""
    sign = -1 if nanoseconds < 0 else 1
    size = abs(nanoseconds)
    return (
        sign
        * {
            "getHours": size // (3600 * SECOND),
            "getMinutes": size // (60 * SECOND),
            "getSeconds": size // SECOND,
            "getMilliseconds": size % SECOND // 10**6,
        }[part]
    )


def int_of_timestamp(nanoseconds: int) -> int:
    """Return the whole seconds since 1970."""
    seconds = nanoseconds // SECOND
    assert INT_MIN <= seconds <= INT_MAX
    return seconds
