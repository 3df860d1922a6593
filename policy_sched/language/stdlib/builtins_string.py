"""Builtins of strings, string.format and strings.quote included; positions count code points."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import re2

from policy_sched.language import values
from policy_sched.language.diagnostics import MAX_PATTERN_BYTES
from policy_sched.language.stdlib.builtins_math import text_of_double
from policy_sched.language.stdlib.builtins_time import text_of_duration, text_of_timestamp
from policy_sched.language.syntax import ESCAPES
from policy_sched.language.values import limits as work, types

Function = Callable[..., Any]
#: Unicode's White_Space, as Go's strings.TrimSpace has it.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(c) for c in range(0x2000, 0x200B)
)
#: A product of lengths below which searching is fast in any way.
_FEW: Final = 2**20
_LOWER: Final = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {c: c - 32 for c in range(ord("a"), ord("z") + 1)}


#: Characters of a text times instructions of a pattern: some tenths of a second at the worst.
_MAX_SEARCH: Final = 50_000_000
_QUIET: Final = re2.Options()
_QUIET.log_errors = False  # RE2 would write them to standard error


@lru_cache(maxsize=1024)
def _pattern(text: str) -> Any:
    if len(text.encode()) > MAX_PATTERN_BYTES:
        raise values.Fault(values.CONVERSION)
    try:
        return re2.compile(text, _QUIET)
    except re2.error:
        raise values.Fault(values.CONVERSION) from None


def _search(text: str, pattern: str) -> Any:
    """Search a text; RE2 takes as many steps as the text is long, times the pattern's program."""
    compiled = _pattern(pattern)
    if len(text) * compiled.programsize > _MAX_SEARCH:
        raise values.LimitError("it searches a text too long for so large a pattern")
    return compiled.search(text)


def _matches(text: str, pattern: str) -> bool:
    return _search(text, pattern) is not None


def _find(text: str, pattern: str) -> str:
    match = _search(text, pattern)
    return "" if match is None else str(match.group(0))


def _within(text: str, position: int) -> int:
    if not 0 <= position <= len(text):
        raise values.Fault(values.OUT_OF_RANGE)
    return position


def _char_at(text: str, position: int) -> str:
    return text[_within(text, position) : position + 1]


def _index_from(text: str, part: str, start: int) -> int:
    return text.find(part, _within(text, start))


def _last_index(text: str, part: str) -> int:
    """Search from the end. Python's own `rfind` takes the product of both lengths at the worst."""
    if len(text) * len(part) <= _FEW:
        return text.rfind(part)
    at = text[::-1].find(part[::-1])
    return at if at < 0 else len(text) - at - len(part)


def _last_index_to(text: str, part: str, last: int) -> int:
    return _last_index(text[: _within(text, last) + len(part)], part)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    grows = len(new) - len(old)
    if grows > 0 and len(text) + grows * (len(text) + 1) > work.MAX_TEXT:
        count = text.count(old)
        work.text_of(len(text) + grows * (count if limit < 0 else min(count, limit)))
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        if len(text) > work.MAX_ITEMS:
            parts = text.count(separator) + 1
            work.list_of(parts if limit < 0 else min(parts, limit))
        return text.split(separator, limit - 1 if limit > 0 else -1)
    work.list_of(len(text) if limit < 0 else min(len(text), limit))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _from(text: str, start: int) -> str:
    return text[_within(text, start) :]


def _between(text: str, start: int, end: int) -> str:
    if _within(text, start) > _within(text, end):
        raise values.Fault(values.OUT_OF_RANGE)
    return text[start:end]


_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([A-Za-z]))")
_ESCAPES: Final = str.maketrans({**ESCAPES, '"': r"\""})
_DEFAULT_PRECISION: Final = 6
#: No double has more decimals than this.
_MAX_PRECISION: Final = 1_074
_DIGITS: Final = 4


def quoted(text: str) -> str:
    """Return a text as a double-quoted literal."""
    escaped = text.translate(_ESCAPES)
    work.text_of(len(escaped) + 2)
    return f'"{escaped}"'


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


_PLAIN: Final[dict[types.Type, Callable[[Any], str]]] = {
    types.BOOL: lambda flag: "true" if flag else "false",
    types.INT: str,
    types.DOUBLE: lambda n: text_of_double(n) if math.isfinite(n) else _special(n),
    types.STRING: str,
    types.DURATION: text_of_duration,
    types.TIMESTAMP: text_of_timestamp,
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

    def plain(self, value: Any, kind: types.Type) -> str:
        """Return a value as %s writes it."""
        if isinstance(kind, types.ListType):
            self.count(2 * len(value))
            return f"[{', '.join([self.plain(item, kind.element) for item in value])}]"
        if isinstance(kind, types.MapType) and isinstance(value, Mapping):
            self.count(4 * len(value))
            entries = sorted(
                (self.plain(k, kind.key), self.plain(v, kind.value)) for k, v in value.items()
            )
            return f"{{{', '.join(f'{k}: {v}' for k, v in entries)}}}"
        write = _PLAIN.get(kind)
        if write is None:
            raise values.Fault(values.CONVERSION)
        return self.take(write(value))

    def clause(self, letter: str, precision: int, value: Any, kind: types.Type) -> str:
        """Return a value as a clause such as %.2f writes it."""
        if letter == "s":
            return self.plain(value, kind)
        return self.take(_clause(letter, precision, value, kind))


def _precision(digits: str | None) -> int:
    """Return how many decimals a clause has; fault: conversion, beyond any double's."""
    if digits is None:
        return _DEFAULT_PRECISION
    if len(digits) > _DIGITS or int(digits) > _MAX_PRECISION:
        raise values.Fault(values.CONVERSION)
    return int(digits)


def _clause(letter: str, precision: int, value: Any, kind: types.Type) -> str:
    if kind == types.DOUBLE and letter in "def" and not math.isfinite(value):
        return _special(value)
    if letter in "fe" and kind in (types.DOUBLE, types.INT):
        return f"{float(value):.{precision}{letter}}"
    if letter == "b" and kind == types.BOOL:
        return "1" if value else "0"
    if letter in "xX" and kind == types.STRING:
        digits = value.encode().hex()
        return str(digits if letter == "x" else digits.upper())
    if letter in "dbxXo" and kind == types.INT:
        return format(value, letter)
    raise values.Fault(values.CONVERSION)


def formatter(
    kinds: Sequence[types.Type], others: types.Type
) -> Callable[[str, Sequence[Any]], str]:
    """Return the builtin of format for arguments of some types, and of one for those beyond."""

    def formatted(form: str, items: Sequence[Any]) -> str:
        parts: list[str] = []
        room = _Room()
        at = used = 0
        for clause in _CLAUSE.finditer(form):
            parts.append(room.take(form[at : clause.start()]))
            at = clause.end()
            if not clause[2]:
                parts.append("%")
                continue
            if used >= len(items):
                raise values.Fault(values.OUT_OF_RANGE)
            kind = kinds[used] if used < len(kinds) else others
            parts.append(room.clause(clause[2], _precision(clause[1]), items[used], kind))
            used += 1
        if "%" in form[at:]:
            raise values.Fault(values.CONVERSION)
        return "".join([*parts, form[at:]])

    return formatted


TOTAL: Final[dict[str, Function]] = {
    "contains_string_string": lambda text, part: part in text,
    "startsWith_string_string": str.startswith,
    "endsWith_string_string": str.endswith,
    "indexOf_string_string": lambda text, part: text.find(part),
    "lastIndexOf_string_string": _last_index,
    "lowerAscii_string": lambda text: text.translate(_LOWER),
    "upperAscii_string": lambda text: text.translate(_UPPER),
    "replace_string_string_string": _replace,
    "replace_string_string_string_int": lambda text, old, new, limit: _replace(
        text, old, new, max(limit, -1)
    ),
    "split_string_string": _split,
    "split_string_string_int": _split,
    "trim_string": lambda text: text.strip(_SPACE),
    "reverse_string": lambda text: text[::-1],
    "strings_quote_string": quoted,
}
PARTIAL: Final[dict[str, Function]] = {
    "matches_string_string": _matches,
    "find_string_string": _find,
    "charAt_string_int": _char_at,
    "indexOf_string_string_int": _index_from,
    "lastIndexOf_string_string_int": _last_index_to,
    "substring_string_int": _from,
    "substring_string_int_int": _between,
}
