"""Builtins of durations and timestamps, both int nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from policy_sched.language import values
from policy_sched.language.runtime import int64
from policy_sched.language.stdlib.builtins_math import maybe
from policy_sched.model import SECOND

Function = Callable[..., Any]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: 0001-01-01T00:00:00Z and the last nanosecond of 9999, as CEL's timestamps run.
FIRST: Final = -62_135_596_800 * SECOND
LAST: Final = 253_402_300_800 * SECOND - 1
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
# Possessive: digits that are followed by no unit are not split in all ways.
_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"([+-]?)(0|(?:{_PART.pattern})+)")
#: Characters of a text that is read: no duration, and no moment, needs as many digits.
_MAX_TEXT: Final = 512
_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
#: The longest name of a time zone has half as many characters.
_MAX_ZONE: Final = 64
_HALF_DAY: Final = 12
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def in_years(moment: int) -> int:
    """Return a timestamp, or the overflow fault outside the years 1 to 9999."""
    if not FIRST <= moment <= LAST:
        raise values.Fault(values.OVERFLOW)
    return moment


def in_duration(length: int) -> int:
    """Return a duration, or the overflow fault outside of int64 nanoseconds."""
    return int64(length)


def duration_of_text(text: str) -> int:
    """Read Go's notation, such as "1h30m" or "1.5s"; fault: conversion."""
    match = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise values.Fault(values.CONVERSION)
    length = sum(_length(n, _UNITS[unit]) for n, unit in _PART.findall(match[2]))
    if length > values.INT_MAX:
        raise values.Fault(values.CONVERSION)
    return -length if match[1] == "-" else length


def _length(number: str, unit: int) -> int:
    if "." not in number:
        return int(number) * unit
    return int(Fraction(f"0{number}" if number[0] == "." else number.rstrip(".")) * unit)


def timestamp_of_text(text: str) -> int:
    """Read RFC 3339, nine decimals of a second kept; fault: conversion."""
    match = _MOMENT.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise values.Fault(values.CONVERSION)
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        raise values.Fault(values.CONVERSION) from None
    offset = 0
    if match[3]:
        if int(match[4]) > 23 or int(match[5]) > 59:
            raise values.Fault(values.CONVERSION)
        offset = (int(match[4]) * 60 + int(match[5])) * (-60 if match[3] == "-" else 60)
    since = moment - EPOCH
    nanoseconds = (since.days * 86_400 + since.seconds - offset) * SECOND
    nanoseconds += int((match[2] or "")[:9].ljust(9, "0"))
    if not FIRST <= nanoseconds <= LAST:
        raise values.Fault(values.CONVERSION)
    return nanoseconds


# Layouts of Go's time package. An element takes as many digits as it can and gives none back, as
# there, so that no text takes more than one pass.

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SHORT: Final = 3
"""Letters of a short name of a month or a day."""
_ONE_OR_TWO: Final = r"(\d{1,2}+)"
_TWO: Final = r"(\d\d)"
_ZONE: Final = ("sign", "zone_hour", "zone_minute")
_COLON_ZONE, _PLAIN_ZONE = rf"([+-]){_TWO}:{_TWO}", rf"([+-]){_TWO}{_TWO}"


def _names(names: Sequence[str], letters: int | None = None) -> str:
    return f"((?i:(?>{'|'.join(name[:letters] for name in names)})))"


_ELEMENTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "January": (_names(_MONTHS), ("month_name",)),
    "Jan(?![a-z])": (_names(_MONTHS, _SHORT), ("month_name",)),
    "Monday": (_names(_DAYS), ("",)),
    "Mon(?![a-z])": (_names(_DAYS, _SHORT), ("",)),
    "MST": ("[A-Z]{3}", ()),
    "2006": (r"(\d{4})", ("year",)),
    "-07:00": (_COLON_ZONE, _ZONE),
    "-0700": (_PLAIN_ZONE, _ZONE),
    "-07": (rf"([+-]){_TWO}", _ZONE[:2]),
    "Z07:00": (f"(?:Z|{_COLON_ZONE})", _ZONE),
    "Z0700": (f"(?:Z|{_PLAIN_ZONE})", _ZONE),
    "Z07": (rf"(?:Z|([+-]){_TWO})", _ZONE[:2]),
    r"[.,]0+(?!\d)": ("", ("fraction",)),
    r"[.,]9+(?!\d)": (r"(?:[.,](\d++))?+", ("fraction",)),
    "002": ("(?!)", ()),  # days of the year are not read
    "01": (_TWO, ("month",)),
    "02": (_TWO, ("day",)),
    "03": (r"(0\d|1[0-2])", ("hour",)),
    "04": (_TWO, ("minute",)),
    "05": (_TWO, ("second",)),
    "06": (_TWO, ("short_year",)),
    "15": (_ONE_OR_TWO, ("hour",)),
    "PM": ("(AM|PM)", ("half",)),
    "pm": ("(am|pm)", ("half",)),
    "_2(?!006)": (f" ?+{_ONE_OR_TWO}", ("day",)),
    "1": (_ONE_OR_TWO, ("month",)),
    "2": (_ONE_OR_TWO, ("day",)),
    "3": (r"((?>0\d|1[0-2]|\d(?!\d)))", ("hour",)),
    "4": (_ONE_OR_TWO, ("minute",)),
    "5": (_ONE_OR_TWO, ("second",)),
}
"""What elements of a layout match, and the fields that their groups are. Earlier ones win."""
_ELEMENT: Final = re.compile("|".join(f"({element})" for element in _ELEMENTS))


@lru_cache(maxsize=256)
def _layout(layout: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern of a layout, and the field that each of its groups is."""
    pattern: list[str] = []
    fields: list[str] = []
    end = 0
    elements = list(_ELEMENT.finditer(layout)) if len(layout) <= _MAX_TEXT else []
    kinds = [tuple(_ELEMENTS.values())[(element.lastindex or 1) - 1] for element in elements]
    for i, (element, (matches, own)) in enumerate(zip(elements, kinds, strict=True)):
        if own == ("fraction",) and not matches:
            matches = rf"[.,](\d{{{len(element[0]) - 1}}})"  # noqa: PLW2901 - depends on its zeros
        pattern += [_literally(layout[end : element.start()]), matches]
        fields += own
        end = element.end()
        follows = kinds[i + 1][1] if i + 1 < len(kinds) else ()
        if own == ("second",) and follows != ("fraction",):
            # Go takes a fraction after the seconds also where the layout has none.
            pattern.append(r"(?:[.,](\d++))?+")
            fields.append("fraction")
    pattern.append(_literally(layout[end:]))
    return re.compile("".join(pattern), re.ASCII), tuple(fields)


def _literally(text: str) -> str:
    """Return a pattern of what stands between elements; Go takes any number of spaces for some."""
    return re.sub(r"(\\ )+", " ++", re.escape(text))


def timestamp_in_layout(text: str, layout: str) -> int:
    """Read a moment in a layout of Go's ``time.Parse``; fault: conversion.

    Without a zone, or with an abbreviation of one, it is UTC's.
    """
    pattern, names = _layout(layout)
    match = pattern.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise values.Fault(values.CONVERSION)
    # A field that is there twice has the later value, as in Go.
    fields = {name: group for name, group in zip(names, match.groups(), strict=True) if group}
    numbers = {name: int(group) for name, group in fields.items() if group.isdecimal()}
    hour, half = numbers.get("hour", 0), fields.get("half", "").lower()
    if half == "pm" and hour < _HALF_DAY:
        hour += _HALF_DAY
    elif half == "am" and hour == _HALF_DAY:
        hour = 0
    month = numbers.get("month", 1)
    if "month_name" in fields:
        name = fields["month_name"].lower()[:_SHORT]
        month = next(i for i, long in enumerate(_MONTHS, 1) if long.startswith(name))
    year = numbers.get("year", 0)
    if "short_year" in numbers:
        year = numbers["short_year"] + (1900 if numbers["short_year"] >= 69 else 2000)
    date = f"{year:04d}-{month:02d}-{numbers.get('day', 1):02d}"
    at = f"{hour:02d}:{numbers.get('minute', 0):02d}:{numbers.get('second', 0):02d}"
    sign = fields.get("sign", "+")
    zone = f"{sign}{numbers.get('zone_hour', 0):02d}:{numbers.get('zone_minute', 0):02d}"
    return timestamp_of_text(f"{date}T{at}.{fields.get('fraction', '0')}{zone}")


def _fraction(rest: int) -> str:
    return f".{rest:09d}".rstrip("0") if rest else ""


def text_of_duration(length: int) -> str:
    """Print seconds with as many decimals as needed, such as "1.5s"."""
    seconds, rest = divmod(abs(length), SECOND)
    return f"{'-' if length < 0 else ''}{seconds}{_fraction(rest)}s"


def text_of_timestamp(moment: int) -> str:
    """Print RFC 3339 in UTC with as many decimals as needed."""
    seconds, rest = divmod(moment, SECOND)
    at = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    return f"{at.isoformat()}{_fraction(rest)}Z"


@lru_cache(maxsize=256)
def _zone(text: str) -> tzinfo:
    if len(text) > _MAX_ZONE:
        raise values.Fault(values.CONVERSION)
    match = _OFFSET.fullmatch(text)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes >= 24 * 60:
            raise values.Fault(values.CONVERSION)
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a directory such as "Europe"
        raise values.Fault(values.CONVERSION) from None


def _at(moment: int, zone: tzinfo) -> datetime:
    try:
        return (EPOCH + timedelta(seconds=moment // SECOND)).astimezone(zone)
    except OverflowError:
        raise values.Fault(values.OVERFLOW) from None


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
}


def _in_utc(part: Callable[[datetime], int]) -> Function:
    return lambda moment: part(_at(moment, UTC))


def _in_zone(part: Callable[[datetime], int]) -> Function:
    return lambda moment, zone: part(_at(moment, _zone(zone)))


def _milliseconds(moment: int, zone: str = "UTC") -> int:
    _zone(zone)
    return moment % SECOND // 10**6


def _whole(unit: int) -> Function:
    return lambda length: values.truncated(length, unit)


def _duration_milliseconds(length: int) -> int:
    size = abs(length) % SECOND // 10**6
    return -size if length < 0 else size


TOTAL: Final[dict[str, Function]] = {
    "int_timestamp": lambda moment: moment // SECOND,
    "string_timestamp": text_of_timestamp,
    "string_duration": text_of_duration,
    "tryDuration_string": maybe(duration_of_text),
    "tryTimestamp_string": maybe(timestamp_of_text),
    "tryTimestamp_string_string": maybe(timestamp_in_layout),
    "getHours_duration": _whole(3600 * SECOND),
    "getMinutes_duration": _whole(60 * SECOND),
    "getSeconds_duration": _whole(SECOND),
    "getMilliseconds_duration": _duration_milliseconds,
}
PARTIAL: Final[dict[str, Function]] = {
    "duration_string": duration_of_text,
    "timestamp_string": timestamp_of_text,
    "timestamp_int": lambda seconds: in_years(seconds * SECOND),
    "add_timestamp_duration": lambda a, b: in_years(a + b),
    "add_duration_timestamp": lambda a, b: in_years(a + b),
    "add_duration_duration": lambda a, b: in_duration(a + b),
    "sub_timestamp_timestamp": lambda a, b: in_duration(a - b),
    "sub_timestamp_duration": lambda a, b: in_years(a - b),
    "sub_duration_duration": lambda a, b: in_duration(a - b),
    **{f"{name}_timestamp": _in_utc(part) for name, part in _PARTS.items()},
    **{f"{name}_timestamp_string": _in_zone(part) for name, part in _PARTS.items()},
    "getMilliseconds_timestamp": _milliseconds,
    "getMilliseconds_timestamp_string": _milliseconds,
}
