"""The types of CEL in Kubernetes, and how an argument's type meets a parameter's.

``any`` is what is known only when a value is there: it suits every parameter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    INT,
    STRING,
    ListType,
    MapType,
    OptionalType,
    Type,
    TypeVariable,
)

ANY: Final = Type("any")
UINT: Final = Type("uint")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
FORMAT: Final = Type("kubernetes.NamedFormat")
URL: Final = Type("kubernetes.URL")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")
TYPE: Final = Type("type")
_NAMED: Final = {
    "any": ANY,
    "bool": BOOL,
    "bytes": BYTES,
    "cidr": CIDR,
    "double": DOUBLE,
    "duration": DURATION,
    "format": FORMAT,
    "int": INT,
    "ip": IP,
    "null": NULL,
    "quantity": QUANTITY,
    "semver": SEMVER,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "type": TYPE,
    "uint": UINT,
    "url": URL,
}
_WRAPPED: Final = re.compile(r"(list|map|optional)\((.*)\)")


def list_of(element: Type) -> ListType:
    """Return the type of lists of an element type."""
    return ListType("list", element)


def map_of(key: Type, value: Type) -> MapType:
    """Return the type of maps."""
    return MapType("map", key, value)


def optional_of(element: Type) -> OptionalType:
    """Return the type of a value that may be absent."""
    return OptionalType("optional_type", element)


def read_type(text: str) -> Type:
    """Read a type as the tables of functions write it; a capital letter is a type variable."""
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is None:
        return _NAMED.get(text) or TypeVariable(text)
    inside = split(wrapped[2])
    if wrapped[1] == "map":
        return map_of(read_type(inside[0]), read_type(inside[1]))
    element = read_type(inside[0])
    return list_of(element) if wrapped[1] == "list" else optional_of(element)


def split(text: str) -> list[str]:
    """Split at the outer commas."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


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


_NULLABLE: Final = (DURATION, TIMESTAMP, QUANTITY, SEMVER, URL, IP, CIDR, FORMAT)


def fits(param: Type, arg: Type, bound: dict[str, Type]) -> bool:
    """Tell whether an argument suits a parameter; ``bound`` collects what variables stand for."""
    if isinstance(param, TypeVariable):
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
    return result


def shown(kinds: Sequence[Type]) -> str:
    """Return types in parentheses, as messages have them."""
    return f"({', '.join(map(str, kinds))})"
