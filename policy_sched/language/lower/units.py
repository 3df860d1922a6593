"""Brings quantities to one unit; a literal takes the unit of the quantity that it meets.

Theory of operation. An amount of a resource is an int in the resource's own unit. A literal, and
what is built of literals alone, has no unit: it is an exact fraction, of type ``free``. Where such
values meet amounts, in an operation, in the branches of a choice or in a list, they become ints in
that unit. An amount's type has its unit: a dimension, or (`UnitOf`) the scale that belongs to a
name known at run time. An amount of a list of resources of any names has neither; a literal cannot
meet it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec.structs import replace

from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    MaskedList,
    Opt,
    UnitOf,
    Value,
)
from policy_sched.language.lower.context import Lowering, Refusal
from policy_sched.language.stdlib import units_in
from policy_sched.language.syntax import Span
from policy_sched.language.values import Interval, Some, spend_of_total, types

_ANY: Final = types.QuantityType()


def is_free(kind: types.Type) -> bool:
    """Return whether a quantity has no unit."""
    return isinstance(kind, types.QuantityType) and kind.dimension == "free"


def quantities_in(kind: types.Type) -> Iterator[types.QuantityType]:
    """Yield the quantity types of a type and of what is inside it."""
    return (part for part in types.parts(kind) if isinstance(part, types.QuantityType))


def joint(kinds: Sequence[types.QuantityType], span: Span) -> types.QuantityType:
    """Return the type that quantities have together; refuse dimensions that differ."""
    units = list(dict.fromkeys(kind for kind in kinds if not is_free(kind)))
    fixed = sorted({kind.dimension for kind in units} & types.FIXED_DIMENSIONS)
    if len(fixed) > 1:
        raise Refusal("PS208", types.clash_message(fixed), span, types.CLASH_HINT)
    if not units:
        return kinds[0]
    if len(units) == 1:
        return units[0]
    return types.quantity_of(fixed[0]) if fixed else _ANY


def scale_of(low: Lowering, kind: types.QuantityType, span: Span) -> Constant | Value:
    """Return how many units of an amount make one."""
    if kind.dimension in types.FIXED_DIMENSIONS:
        return low.int_const(1000 if kind.dimension == "cpu" else 1)
    if isinstance(kind, UnitOf) and kind.scale is not None:
        return Value(kind.scale, None, types.INT, Interval(1, 1000))
    raise Refusal(
        "PS211",
        "which unit the amount has depends on a name that is not known any more",
        span,
        "take a number with .units() where the name is known",
    )


def aligned(low: Lowering, a: Abstract, b: Abstract, span: Span) -> tuple[Value, Value, types.Type]:
    """Return two quantities, not both literals, in one unit, and their type."""
    left, right = a.type, b.type
    assert isinstance(left, types.QuantityType)
    assert isinstance(right, types.QuantityType)
    kind = joint([left, right], span)
    return in_units(low, a, kind, span), in_units(low, b, kind, span), kind


def in_units(low: Lowering, value: Abstract, kind: types.QuantityType, span: Span) -> Value:
    """Return a quantity in the scheduler units of ``kind``."""
    if not is_free(value.type):
        return low.val(value)
    scale = scale_of(low, kind, span)
    if isinstance(value, Constant) and isinstance(scale, Constant):
        converted = low.fold(units_in, [value.value, scale.value], kind, span)
        if not isinstance(converted, Constant):
            raise Refusal("PS207", "this quantity does not fit a 64-bit int", span)
        return low.val(converted)
    return low.call(units_in, [low.val(value), low.val(scale)], kind, span, fallible=True)


def in_one_unit(
    low: Lowering, values: Sequence[Abstract], span: Span, result: types.Type | None = None
) -> list[Abstract]:
    """Return values whose quantities, also those in lists, maps and optionals, are alike.

    ``result`` is the type of what is made of them: a quantity's unit is theirs.
    """
    kinds = [kind for value in values for kind in quantities_in(value.type)]
    if isinstance(result, types.QuantityType) and result.dimension in types.FIXED_DIMENSIONS:
        kinds.append(result)
    frees = sum(map(is_free, kinds))
    if frees in (0, len(kinds)):
        return list(values)
    kind = joint(kinds, span)
    return [settled(low, value, kind, span) for value in values]


def of_type(low: Lowering, value: Abstract, kind: types.Type, span: Span) -> Abstract:
    """Return a value whose literals are amounts, where its type has a dimension."""
    wanted = {part.dimension for part in quantities_in(kind)} & types.FIXED_DIMENSIONS
    if len(wanted) != 1:
        return value
    return settled(low, value, types.quantity_of(wanted.pop()), span)


def settled(low: Lowering, value: Abstract, kind: types.QuantityType, span: Span) -> Abstract:
    """Return a value whose literals, also those in lists, maps and optionals, are amounts."""
    if not any(map(is_free, quantities_in(value.type))):
        return value
    if is_free(value.type):
        return in_units(low, value, kind, span)
    result = with_unit(value.type, types.quantity_of(kind.dimension))
    match value:
        case MaskedList():
            items = tuple((mask, settled(low, item, kind, span)) for mask, item in value.items)
            errors = (low.masked(m.op if m else None, i.err) for m, i in items)
            error = low.first(value.err, *errors)
            bare = tuple((m, replace(i, err=None) if isinstance(i, Value) else i) for m, i in items)
            return MaskedList(bare, error, result)
        case Opt():
            inner = settled(low, value.value, kind, span)
            error = low.masked(low.val(value.present).op, inner.err)
            bare_inner = replace(inner, err=None) if isinstance(inner, Value) else inner
            return Opt(value.present, bare_inner, low.first(value.err, error), result)
    convert = _converter(value.type)
    scale = scale_of(low, kind, span)
    if isinstance(value, Constant) and isinstance(scale, Constant):
        return low.fold(convert, [value.value, scale.value], result, span)
    return low.call(convert, [low.val(value), low.val(scale)], result, span, fallible=True)


def with_unit(kind: types.Type, unit: types.QuantityType) -> types.Type:
    """Return a type whose quantities have a unit."""
    match kind:
        case types.QuantityType():
            return unit
        case types.ListType():
            return types.list_of(with_unit(kind.element, unit))
        case types.OptionalType():
            return types.optional_of(with_unit(kind.element, unit))
        case types.MapType():
            return types.map_of(kind.key, with_unit(kind.value, unit))
    return kind


def _converter(kind: types.Type) -> Callable[[Any, int], Any]:
    """Return what turns the literals in a value of a type into units of 1/scale."""
    match kind:
        case types.ListType():
            inside = _converter(kind.element)

            def each(items: Sequence[Any], scale: int) -> list[Any]:
                spend_of_total(len(items))
                return [inside(item, scale) for item in items]

            return each
        case types.OptionalType():
            present = _converter(kind.element)
            return lambda some, scale: None if some is None else Some(present(some.value, scale))
        case types.MapType():
            value = _converter(kind.value)
            return lambda whole, scale: {key: value(item, scale) for key, item in whole.items()}
    return _in_units if is_free(kind) else lambda value, _scale: value


def _in_units(amount: Fraction, scale: int) -> int:
    return units_in(amount, scale)


def refined(kind: types.Type, actual: types.Type) -> types.Type:
    """Return ``kind`` with what ``actual``, the type of a value of it, knows of units.

    Of a name that is known at run time it takes nothing: a loop's variable may be that name.
    """
    match kind, actual:
        case types.QuantityType(), types.QuantityType():
            return _ANY if isinstance(actual, UnitOf) else actual
        case types.ListType(), types.ListType():
            return types.list_of(refined(kind.element, actual.element))
        case types.OptionalType(), types.OptionalType():
            return types.optional_of(refined(kind.element, actual.element))
        case types.MapType(), types.MapType():
            return types.map_of(kind.key, refined(kind.value, actual.value))
    return kind
