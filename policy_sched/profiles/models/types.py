"""What models of configuration files share: strictness, durations, closed words, problems."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

from policy_sched.errors import nearest
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

FileName = Annotated[
    str, Field(min_length=1, json_schema_extra={"errorMessage": "must name a file or a directory"})
]
"""A file or a directory that a document names; a text without a character would be its own."""

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


Path = tuple[str | int, ...]
"""Keys and indices from the root of a document."""

UNKNOWN_KEY = "PS702"
WRONG_TYPE = "PS703"
MISSING_KEY = "PS704"
UNKNOWN_PLUGIN = "PS705"
VERSION = "PS706"
BAD_VALUE = "PS707"
DUPLICATE = "PS708"
UNLIKE_QUEUE_SORT = "PS311"
TOO_LARGE = "PS501"
NOT_BUILT = "PS711"
"""A set that compiles, but whose plugins cannot be made."""


class ModelProblem(msgspec.Struct, frozen=True):
    """A problem at ``path``; ``on_key`` points at the key instead of its value.

    ``placeholder`` is a value of the right shape: with it in place, the rest of the document
    can be checked. A problem of an unknown key has none, the key is taken out.
    """

    path: Path
    code: str
    message: str
    hint: str = ""
    on_key: bool = False
    warning: bool = False
    placeholder: object = None


def path_text(path: Iterable[str | int]) -> str:
    """Return a path as upstream writes it: ``profiles[0].plugins.filter``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: object) -> str:
    """Return a value as upstream shows it: strings quoted, the rest as JSON, cut if long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" if a known word is close to ``word``, else nothing."""
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else ""


def without_followers(problems: Sequence[ModelProblem]) -> list[ModelProblem]:
    """Return the problems without a missing key that a misspelt neighbour was meant to be."""
    meant = {(p.path[:-1], p.hint) for p in problems if p.code == UNKNOWN_KEY}
    return [
        p
        for p in problems
        if p.code != MISSING_KEY
        or not p.path
        or (p.path[:-1], f"did you mean {p.path[-1]!r}?") not in meant
    ]


def problem_at(
    path: Path,
    why: str,
    code: str = BAD_VALUE,
    hint: str = "",
    *,
    on_key: bool = False,
    warning: bool = False,
) -> ModelProblem:
    """Return a problem whose message begins with its path."""
    return ModelProblem(path, code, f"{path_text(path)}: {why}", hint, on_key, warning)


def invalid(path: Path, value: object, why: str) -> ModelProblem:
    """Return the problem of a value that is of the right type and not allowed."""
    return problem_at(path, f"Invalid value: {shown(value)}: {why}")


def is_address(url: str) -> bool:
    """Return whether a URL is of http or https, and has a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        return False


def unsupported(path: Path, value: object, known: Iterable[object], hint: str = "") -> ModelProblem:
    """Return the problem of a value that is none of a closed set."""
    words = ", ".join(json.dumps(word) for word in known)
    why = f"Unsupported value: {shown(value)}: supported values: {words}"
    return problem_at(path, why, hint=hint)


def required(path: Path, why: str = "") -> ModelProblem:
    """Return the problem of a value that must be given."""
    tail = f": {why}" if why else ""
    return problem_at(path, f"Required value{tail}", MISSING_KEY)


def duplicate(path: Path, value: object) -> ModelProblem:
    """Return the problem of a value that must be unique and is not."""
    return problem_at(path, f"Duplicate value: {shown(value)}", DUPLICATE)


def forbidden(path: Path, why: str) -> ModelProblem:
    """Return the problem of a field that must be absent."""
    return problem_at(path, f"Forbidden: {why}", on_key=True)
