"""How types meet: joining two into one, fitting an argument to a parameter, quantity dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from policy_sched.language.values.type_parser import RAW, TypeVariable
from policy_sched.language.values.types import (
    ERROR,
    UNKNOWN,
    ListType,
    MapType,
    OptionalType,
    QuantityType,
    RecordType,
    Type,
    list_of,
    map_of,
    optional_of,
    quantity_of,
)

#: Dimensions of which two must not meet.
FIXED_DIMENSIONS: Final = frozenset({"cpu", "bytes", "count"})


def join(a: Type, b: Type) -> Type | None:
    """Return the type that values of both types have, or None.

    An unknown type gives way to the other, a reported one silences the other; quantities of
    different dimensions join to ``any`` (`dimension_of` tells whether they may meet).
    """
    if ERROR in (a, b):
        return ERROR
    if UNKNOWN in (a, b):
        return b if a == UNKNOWN else a
    if a == b:
        return a
    match a, b:
        case QuantityType(), QuantityType():
            return quantity_of(_joint(a.dimension, b.dimension))
        case ListType(), ListType():
            element = join(a.element, b.element)
            return None if element is None else list_of(element)
        case OptionalType(), OptionalType():
            element = join(a.element, b.element)
            return None if element is None else optional_of(element)
        case MapType(), MapType():
            key, value = join(a.key, b.key), join(a.value, b.value)
            return None if key is None or value is None else map_of(key, value)
        case RecordType(), RecordType():
            return _join_records(a, b)
    return None


def _joint(a: str, b: str) -> str:
    if a == b:
        return a
    known = {a, b} - {"free"}
    return known.pop() if len(known) == 1 else "any"


def _join_records(a: RecordType, b: RecordType) -> Type | None:
    if a.name != b.name or [n for n, _ in a.fields] != [n for n, _ in b.fields]:
        return None
    fields = []
    for (name, left), (_, right) in zip(a.fields, b.fields, strict=True):
        joined = join(left, right)
        if joined is None:
            return None
        fields.append((name, joined))
    return RecordType(a.name, tuple(fields))


def fit(param: Type, arg: Type, bound: dict[str, Type]) -> bool:
    """Tell whether an argument of type ``arg`` suits ``param``; note what type variables become.

    ``bound`` maps a type variable's name to the join of what it met so far.
    """
    if param == RAW:
        return _from_params(arg)
    if isinstance(param, TypeVariable):
        if param.allowed and arg.name not in param.allowed and arg not in (UNKNOWN, ERROR):
            return False
        if arg == RAW:
            return False
        joined = join(bound.get(param.name, UNKNOWN), arg)
        if joined is None:
            return False
        bound[param.name] = joined
        return True
    if arg in (UNKNOWN, ERROR):
        return True
    match param, arg:
        case ListType(), ListType():
            return fit(param.element, arg.element, bound)
        case OptionalType(), OptionalType():
            return fit(param.element, arg.element, bound)
        case MapType(), MapType():
            return fit(param.key, arg.key, bound) and fit(param.value, arg.value, bound)
    return join(param, arg) is not None


def _from_params(arg: Type) -> bool:
    """Whether a builtin that reads a whole mapping of params may be given such a value."""
    return (
        arg in (RAW, UNKNOWN, ERROR)
        or isinstance(arg, MapType)
        or bool(isinstance(arg, RecordType) and (arg.fields or arg.name == "record"))
    )


def substitute(result: Type, bound: dict[str, Type]) -> Type:
    """Return ``result`` with its type variables replaced; one that met nothing is unknown."""
    if isinstance(result, TypeVariable):
        return bound.get(result.name, UNKNOWN)
    if isinstance(result, ListType):
        return list_of(substitute(result.element, bound))
    if isinstance(result, OptionalType):
        return optional_of(substitute(result.element, bound))
    if isinstance(result, MapType):
        return map_of(substitute(result.key, bound), substitute(result.value, bound))
    return result


def parts(kind: Type) -> Iterator[Type]:
    """Yield a type and the types inside it."""
    yield kind
    match kind:
        case ListType() | OptionalType():
            yield from parts(kind.element)
        case MapType():
            yield from parts(kind.key)
            yield from parts(kind.value)
        case RecordType():
            for _, inner in kind.fields:
                yield from parts(inner)


def is_known(kind: Type) -> bool:
    """Tell whether nothing in the type is unknown or already reported."""
    return not any(part in (UNKNOWN, ERROR) for part in parts(kind))


def dimensions(kinds: Iterable[Type]) -> tuple[set[str], str]:
    """Return the fixed dimensions that the quantities in ``kinds`` have, and their joint one.

    Two fixed dimensions must not meet.
    """
    found = {part.dimension for k in kinds for part in parts(k) if isinstance(part, QuantityType)}
    fixed = found & FIXED_DIMENSIONS
    if not found:
        return fixed, "free"
    joint = found.pop()
    for dimension in found:
        joint = _joint(joint, dimension)
    return fixed, joint


CLASH_HINT: Final = "take numbers of both with .units() if that is meant"


def clash_message(clash: Sequence[str]) -> str:
    """Return the sentence of PS208."""
    return f"a quantity of {clash[0]} cannot meet one of {clash[1]}"


def resource_dimension(name: str) -> str:
    """Return the dimension of a resource's amounts, by the resource's name."""
    if name == "cpu":
        return "cpu"
    if name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
        return "bytes"
    return "count"
