"""Writes a compiled expression's value: as the language would write it, and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from policy_sched.language.stdlib.builtins_math import text_of_double
from policy_sched.language.stdlib.builtins_time import text_of_duration, text_of_timestamp
from policy_sched.language.stdlib.environment import policy_environment
from policy_sched.language.syntax import quote
from policy_sched.language.values import Some, types
from policy_sched.model import Node, PodInfo

_TIMES: Final = {types.DURATION: text_of_duration, types.TIMESTAMP: text_of_timestamp}


def value_text(value: Any, kind: types.Type) -> str:
    """Return a value in words of the language; of a record, its name and its type."""
    match kind:
        case types.OptionalType():
            if value is None:
                return "optional.none()"
            return f"optional.of({value_text(_inside(value), kind.element)})"
        case types.ListType():
            return f"[{', '.join(value_text(item, kind.element) for item in value)}]"
        case types.MapType():
            entries = [
                f"{value_text(key, kind.key)}: {value_text(value[key], kind.value)}"
                for key in sorted(value)
            ]
            return "{" + ", ".join(entries) + "}"
        case types.QuantityType():
            return _amount(value, kind)
        case types.RecordType():
            return _record(value, kind)
    if kind in _TIMES:
        return _TIMES[kind](value)
    if kind == types.STRING:
        return quote('"', value)
    if kind == types.DOUBLE:
        return text_of_double(value)
    if isinstance(value, Mapping):  # resources
        return "{" + ", ".join(f"{name}: {value[name]}" for name in sorted(value)) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else str(kind)


def _record(value: Any, kind: types.RecordType) -> str:
    """Return a node or pod by its name, a smaller record by its fields."""
    if isinstance(value, Node):
        return f"Node({value.metadata.name})"
    if isinstance(value, PodInfo):
        return f"Pod({value.key})"
    shown = []
    for name in policy_environment().fields_of(kind) or ():
        entry = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if isinstance(entry, str | int | float):
            shown.append(f"{name}: {quote(chr(34), entry) if isinstance(entry, str) else entry}")
    return f"{'' if kind.fields else kind.name}{{{', '.join(shown)}}}"


def value_data(value: Any, kind: types.Type) -> Any:
    """Return a value as JSON has it: quantities in the scheduler's unit, times as texts."""
    match kind:
        case types.OptionalType():
            return None if value is None else value_data(_inside(value), kind.element)
        case types.ListType():
            return [value_data(item, kind.element) for item in value]
        case types.MapType():
            return {str(key): value_data(value[key], kind.value) for key in sorted(value)}
        case types.RecordType():
            return value_text(value, kind)
    if kind in _TIMES:
        return _TIMES[kind](value)
    if isinstance(value, Mapping):
        return {name: value[name] for name in sorted(value)}
    return value if isinstance(value, bool | int | float | str) else value_text(value, kind)


def _inside(value: Any) -> Any:
    return value.value if isinstance(value, Some) else value


def _amount(value: Any, kind: types.QuantityType) -> str:
    """Return a quantity as Kubernetes writes it, in thousandths where its unit is that."""
    if isinstance(value, Fraction):
        return str(int(value)) if value.denominator == 1 else f"{int(value * 1000)}m"
    return f"{value}m" if kind.dimension == "cpu" and value % 1000 else _whole(value, kind)


def _whole(value: int, kind: types.QuantityType) -> str:
    if kind.dimension == "cpu":
        return str(value // 1000)
    for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if kind.dimension == "bytes" and value and value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)
