"""The oracle's ``string.format``, from cel-spec's description of its clauses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from policy_sched.language.values import types

from .oracle_text import text_of_double
from .oracle_time import text_of_duration, text_of_timestamp
from .oracle_values import OracleError

CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))")
SPECIAL: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: Any, kind: types.Type) -> str:
    """Return a value as ``%s`` prints it."""
    if isinstance(kind, types.ListType):
        return "[" + ", ".join(plain(item, kind.element) for item in value) + "]"
    if isinstance(kind, types.MapType):
        entries = {plain(k, kind.key): plain(v, kind.value) for k, v in value.items()}
        return "{" + ", ".join(f"{k}: {entries[k]}" for k in sorted(entries)) + "}"
    match kind.name:
        case "bool":
            return "true" if value else "false"
        case "int":
            return str(value)
        case "double":
            return text_of_double(value) if math.isfinite(value) else SPECIAL[str(value)]
        case "string":
            return str(value)
        case "duration":
            return text_of_duration(value)
        case "timestamp":
            return text_of_timestamp(value)
    raise OracleError("conversion")


def clause(letter: str, precision: int, value: Any, kind: types.Type) -> str:
    """Return a value as one clause prints it; a type that the clause does not take is an error."""
    if letter == "s":
        return plain(value, kind)
    if letter in "fe" and kind.name in {"double", "int"}:
        if not math.isfinite(value):
            return SPECIAL[str(float(value))]
        return f"{float(value):.{precision}{letter}}"
    if letter == "d" and kind.name == "double" and not math.isfinite(value):
        return SPECIAL[str(value)]
    if letter == "b" and kind.name == "bool":
        return "1" if value else "0"
    if letter in "xX" and kind.name == "string":
        digits = str(value).encode().hex()
        return digits if letter == "x" else digits.upper()
    if letter in "dbxXo" and kind.name == "int":
        return format(value, letter)
    raise OracleError("conversion")


def formatted(form: str, items: list[Any], kinds: Iterable[types.Type]) -> str:
    """Fill a printf-like text; a missing argument is an error, as is an unknown clause."""
    parts: list[str] = []
    rest = zip(items, kinds, strict=False)
    place = 0
    for found in CLAUSE.finditer(form):
        parts.append(form[place : found.start()])
        place = found.end()
        if found.group() == "%%":
            parts.append("%")
            continue
        try:
            item, kind = next(rest)
        except StopIteration as error:
            raise OracleError("index_out_of_range") from error
        parts.append(clause(found[2], int(found[1] or 6), item, kind))
    if "%" in form[place:]:
        raise OracleError("conversion")
    return "".join(parts) + form[place:]
