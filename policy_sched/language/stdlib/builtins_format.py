"""The kernels of string.format and strings.quote."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from policy_sched.language.stdlib.builtins_math import text_of_double
from policy_sched.language.stdlib.builtins_time import text_of_duration, text_of_timestamp
from policy_sched.language.syntax import ESCAPES
from policy_sched.language.values import (
    BOOL,
    CONVERSION,
    DOUBLE,
    DURATION,
    INT,
    OUT_OF_RANGE,
    STRING,
    TIMESTAMP,
    Fault,
    ListType,
    MapType,
    Type,
)
from policy_sched.language.values import limits as work

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([A-Za-z]))")
_ESCAPES: Final = str.maketrans({**ESCAPES, '"': r"\""})
_DEFAULT_PRECISION: Final = 6
#: No double has more decimals than this.
_MAX_PRECISION: Final = 1_074
_DIGITS: Final = 4


def quoted(text: str) -> str:
    """Return a text as a double-quoted literal."""
    found = text.translate(_ESCAPES)
    work.text_of(len(found) + 2)
    return f'"{found}"'


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


class _Room:
    """Counts the characters that a text is made of while it is made."""

    def __init__(self) -> None:
        self._used = 0

    def count(self, characters: int) -> None:
        """Take room for so many characters. Raises LimitError."""
        self._used += characters
        work.text_of(self._used)

    def take(self, text: str) -> str:
        """Return a text that has room. Raises LimitError."""
        self.count(len(text))
        return text

    def plain(self, value: Any, kind: Type) -> str:
        """Return a value as %s writes it."""
        if isinstance(kind, ListType):
            self.count(2 * len(value))
            return f"[{', '.join([self.plain(item, kind.element) for item in value])}]"
        if isinstance(kind, MapType) and isinstance(value, Mapping):
            self.count(4 * len(value))
            entries = sorted(
                (self.plain(k, kind.key), self.plain(v, kind.value)) for k, v in value.items()
            )
            return f"{{{', '.join(f'{k}: {v}' for k, v in entries)}}}"
        write = _PLAIN.get(kind)
        if write is None:
            raise Fault(CONVERSION)
        return self.take(write(value))

    def clause(self, letter: str, precision: int, value: Any, kind: Type) -> str:
        """Return a value as a clause such as %.2f writes it."""
        if letter == "s":
            return self.plain(value, kind)
        return self.take(_clause(letter, precision, value, kind))


def _precision(digits: str | None) -> int:
    """Return how many decimals a clause asks for; fault: conversion, beyond any double's."""
    if digits is None:
        return _DEFAULT_PRECISION
    if len(digits) > _DIGITS or int(digits) > _MAX_PRECISION:
        raise Fault(CONVERSION)
    return int(digits)


def _clause(letter: str, precision: int, value: Any, kind: Type) -> str:
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
        room = _Room()
        at = used = 0
        for found in _CLAUSE.finditer(form):
            parts.append(room.take(form[at : found.start()]))
            at = found.end()
            if not found[2]:
                parts.append("%")
                continue
            if used >= len(items):
                raise Fault(OUT_OF_RANGE)
            kind = kinds[used] if used < len(kinds) else others
            parts.append(room.clause(found[2], _precision(found[1]), items[used], kind))
            used += 1
        if "%" in form[at:]:
            raise Fault(CONVERSION)
        return "".join([*parts, form[at:]])

    return formatted
