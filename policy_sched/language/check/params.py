"""The types of a policy's parameters, read off their values."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    INT,
    RAW,
    STRING,
    UNKNOWN,
    RecordType,
    Type,
    join,
    list_of,
    map_of,
)


def params_type(params: Mapping[str, object]) -> RecordType:
    """Return the record type of all parameters of a policy."""
    return RecordType("record", tuple((name, value_type(v)) for name, v in params.items()))


def value_type(value: object) -> Type:
    """Return the type of one parameter's value.

    A sequence is a list, a mapping whose values have one type a map from string, any other
    mapping a record. What has no type (mixed shapes, null) is raw: only a builtin can read it.
    """
    match value:
        case bool():
            return BOOL
        case int():
            return INT if -(2**63) <= value < 2**63 else RAW
        case float():
            return DOUBLE
        case str():
            return STRING
        case list() | tuple():
            element = _common([value_type(item) for item in value])
            return RAW if element in (None, RAW) else list_of(element or UNKNOWN)
        case Mapping():
            return _mapping(value)
    return RAW


def _mapping(value: Mapping[object, object]) -> Type:
    if not all(isinstance(key, str) for key in value):
        return RAW
    kinds = [value_type(item) for item in value.values()]
    common = _common(kinds)
    if common is not None and common != RAW:
        return map_of(STRING, common)
    names = [str(key) for key in value]
    return RecordType("record", tuple(zip(names, kinds, strict=True)))


def _common(kinds: list[Type]) -> Type | None:
    """Return the one type of all, unknown for none of them, None if they differ."""
    common: Type = UNKNOWN
    for kind in kinds:
        joined = join(common, kind)
        if joined is None:
            return None
        common = joined
    return common
