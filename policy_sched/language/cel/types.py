"""The types that only selectors have, and how an argument's type meets a parameter's.

``any`` is what is known only of a device: it suits every parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.language.values import (
    DURATION,
    QUANTITY,
    SEMVER,
    TIMESTAMP,
    UNKNOWN,
    ListType,
    MapType,
    OptionalType,
    Type,
    TypeVariable,
    list_of,
    map_of,
    optional_of,
    record,
)

ANY: Final = record("any")
UINT: Final = record("uint")
BYTES: Final = record("bytes")
NULL: Final = record("null")
TYPE: Final = record("type")
#: What the type variables of the rule language's functions stand for in selectors.
_ALLOWED: Final = {
    "ordered": frozenset(
        {"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"}
    ),
    "amount": frozenset({"int", "uint", "double", "duration"}),
}
_NULLABLE: Final = (
    DURATION, TIMESTAMP, QUANTITY, SEMVER, *map(record, ("url", "ip", "cidr", "format")),
)  # fmt: skip
#: Types that upstream calls otherwise.
UPSTREAM_NAMES: Final = {
    "Device": "kubernetes.DRADevice",
    "cidr": "net.CIDR",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "null": "null_type",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "url": "kubernetes.URL",
}


def upstream_name(kind: Type) -> str:
    """Return a type as cel-go's messages have it."""
    match kind:
        case ListType():
            return f"list({upstream_name(kind.element)})"
        case MapType():
            return f"map({upstream_name(kind.key)}, {upstream_name(kind.value)})"
        case OptionalType():
            return f"optional_type({upstream_name(kind.element)})"
    return UPSTREAM_NAMES.get(kind.name, kind.name)


def upstream_names(kinds: Sequence[Type]) -> str:
    """Return types in parentheses, as cel-go's messages have them."""
    return f"({', '.join(map(upstream_name, kinds))})"


def meet(a: Type, b: Type) -> Type | None:
    """Return the type that both have, ``any`` where one of them is unknown; None if they differ."""
    if a == b:
        return a
    if ANY in (a, b):
        return ANY
    if NULL in (a, b):
        other = b if a == NULL else a
        return other if isinstance(other, OptionalType) or other in _NULLABLE else None
    if isinstance(a, ListType) and isinstance(b, ListType):
        element = meet(a.element, b.element)
        return None if element is None else list_of(element)
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        element = meet(a.element, b.element)
        return None if element is None else optional_of(element)
    if isinstance(a, MapType) and isinstance(b, MapType):
        key, value = meet(a.key, b.key), meet(a.value, b.value)
        return None if key is None or value is None else map_of(key, value)
    return None


def fits(param: Type, arg: Type, bound: dict[str, Type]) -> bool:
    """Tell whether an argument suits a parameter; ``bound`` collects what variables stand for."""
    if isinstance(param, TypeVariable):
        if param.allowed and arg != ANY and arg.name not in _ALLOWED[param.name]:
            return False
        before = bound.get(param.name)
        found = arg if before is None else meet(before, arg)
        if found is None:
            return False
        bound[param.name] = found
        return True
    if ANY in (param, arg):
        return True
    match param, arg:
        case ListType(), ListType():
            return fits(param.element, arg.element, bound)
        case OptionalType(), OptionalType():
            return fits(param.element, arg.element, bound)
        case MapType(), MapType():
            return fits(param.key, arg.key, bound) and fits(param.value, arg.value, bound)
    return meet(param, arg) is not None


def substituted(result: Type, bound: dict[str, Type]) -> Type:
    """Return a result's type, its variables replaced; one that met nothing is ``any``."""
    match result:
        case TypeVariable():
            return bound.get(result.name, ANY)
        case ListType():
            return list_of(substituted(result.element, bound))
        case OptionalType():
            return optional_of(substituted(result.element, bound))
        case MapType():
            return map_of(substituted(result.key, bound), substituted(result.value, bound))
    return ANY if result == UNKNOWN else result
