"""The kernels of string.format and strings.quote."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from policy_sched.language.faults import Fault
from policy_sched.language.ir import CONVERSION, OUT_OF_RANGE
from policy_sched.language.kernels_numbers import text_of_double
from policy_sched.language.kernels_time import text_of_duration, text_of_timestamp
from policy_sched.language.quoting import ESCAPES
from policy_sched.language.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    ListType,
    MapType,
    Type,
)

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([A-Za-z]))")
_ESCAPES: Final = str.maketrans({**ESCAPES, '"': r"\""})
_DEFAULT_PRECISION: Final = 6


def quoted(text: str) -> str:
    """Return a text as a double-quoted literal."""
    return f'"{text.translate(_ESCAPES)}"'


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


_PLAIN: Final[dict[Type, Callable[[Any], str]]] = {
    BOOL: lambda flag: "true" if flag else "false",
    INT: str,
    DOUBLE: lambda n: text_of_double(n) if math.isfinite(n) else _special(n),
    STRING: str,
    DURATION: text_of_duration,
    TIMESTAMP: text_of_timestamp,
}


def _plain(value: Any, kind: Type) -> str:
    if isinstance(kind, ListType):
        return f"[{', '.join(_plain(item, kind.element) for item in value)}]"
    if isinstance(kind, MapType) and isinstance(value, Mapping):
        entries = sorted((_plain(k, kind.key), _plain(v, kind.value)) for k, v in value.items())
        return f"{{{', '.join(f'{k}: {v}' for k, v in entries)}}}"
    write = _PLAIN.get(kind)
    if write is None:
        raise Fault(CONVERSION)
    return write(value)


def _clause(letter: str, precision: int, value: Any, kind: Type) -> str:
    if letter == "s":
        return _plain(value, kind)
    if kind == DOUBLE and letter in "def" and not math.isfinite(value):
        return _special(value)
    if letter in "fe" and kind in (DOUBLE, INT):
        return f"{float(value):.{precision}{letter}}"
    if letter == "b" and kind == BOOL:
        return "1" if value else "0"
    if letter in "xX" and kind == STRING:
        digits = value.encode().hex()
        return str(digits if letter == "x" else digits.upper())
    if letter in "dbxXo" and kind == INT:
        return format(value, letter)
    raise Fault(CONVERSION)


def formatter(kinds: Sequence[Type], others: Type) -> Callable[[str, Sequence[Any]], str]:
    """Return the kernel of format for arguments of some types, and of one for those beyond."""

    def formatted(form: str, items: Sequence[Any]) -> str:
        parts: list[str] = []
        at = used = 0
        for found in _CLAUSE.finditer(form):
            parts.append(form[at : found.start()])
            at = found.end()
            if not found[2]:
                parts.append("%")
                continue
            if used >= len(items):
                raise Fault(OUT_OF_RANGE)
            precision = int(found[1]) if found[1] else _DEFAULT_PRECISION
            kind = kinds[used] if used < len(kinds) else others
            parts.append(_clause(found[2], precision, items[used], kind))
            used += 1
        if "%" in form[at:]:
            raise Fault(CONVERSION)
        return "".join([*parts, form[at:]])

    return formatted
