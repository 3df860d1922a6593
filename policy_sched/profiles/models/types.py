"""What the models of configuration files share: their strictness, Go durations, closed words."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

from policy_sched.language.stdlib import timestamp_of_text
from policy_sched.language.values import Fault

T = TypeVar("T")

_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
# Possessive, which JSON Schema's patterns do not know: nothing is tried twice.
_PARTS: Final = re.compile(r"([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?P<sign>[-+]?)(?:0|(?P<parts>(?:{_PARTS.pattern})+))")
#: Characters of a text that is read: more digits than any duration has.
_MAX_TEXT: Final = 256
_SHOWN: Final = 40
DURATION_PATTERN: Final = rf"^[-+]?(0|({_PART})+)$"


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a Go duration such as ``1h2m3.5s``; ValueError if it is none."""
    match = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        shown = text if len(text) <= _MAX_TEXT else f"{text[:_SHOWN]}..."
        raise ValueError(f'invalid duration "{shown}"')
    total = 0
    for part in _PARTS.finditer(match["parts"] or ""):
        whole, _, fraction = part[1].partition(".")
        unit = _UNIT_NS[part[2]]
        total += int(whole or "0") * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
    if total >= 2**63:
        raise ValueError(f'invalid duration "{text}"')
    return -total if match["sign"] == "-" else total


def _duration(value: object) -> object:
    """Read text as a duration; a number would have no unit."""
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 500ms, 15s or 10m")  # noqa: TRY004 - pydantic reads it
    return parse_duration(value)


Duration = Annotated[
    int,
    BeforeValidator(_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": DURATION_PATTERN,
            "errorMessage": "must be a duration such as 500ms, 15s or 10m",
        }
    ),
]
"""Nanoseconds; written as a Go duration such as ``15s``."""

Expression = Annotated[
    str, WithJsonSchema({"type": ["string", "number", "boolean"], "title": "rule"})
]
"""A rule; a bare YAML number or boolean is taken as the text that was written."""

Many = Annotated[tuple[T, ...], Strict(False)]
"""A list in the file, a tuple here: a loaded configuration does not change."""


class Document(BaseModel):
    """The strictness of every model: no unknown keys, no coercion, nothing changes later."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=False,
        defer_build=True,
    )


D = TypeVar("D", bound=Document)


def zero_means_default(document: D) -> D:
    """Replace zero numbers and empty strings of ``document`` by their fields' defaults.

    Upstream's component configuration does not distinguish an absent scalar from a zero one.
    Booleans are pointers there, and keep their value.
    """
    for name, field in type(document).model_fields.items():
        value = getattr(document, name)
        if not value and not isinstance(value, bool):
            object.__setattr__(document, name, field.default)
    return document


DEFAULT_NOW: Final = "2026-01-01T00:00:00Z"
"""The time of tests and simulations that name none."""
_LAST: Final = 2**63 - 1


def moment_of(text: str) -> int:
    """Return a moment as nanoseconds since 1970. Raises ValueError with the reason."""
    try:
        moment = timestamp_of_text(text)
    except Fault:
        raise ValueError(f'"{text}" is not a time such as "{DEFAULT_NOW}"') from None
    if not 0 <= moment <= _LAST:
        raise ValueError(f'"{text}" is out of range: times run from 1970 to 2262')
    return moment
