"""Lowers the methods of quantities, which are ints in the scheduler's unit of their dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy_sched.language.ir import ops
from policy_sched.language.lower.abstract_values import Abstract, Constant, Value
from policy_sched.language.lower.arithmetic import sign_of, to_double, whole
from policy_sched.language.lower.context import Lowering
from policy_sched.language.lower.logic import with_error
from policy_sched.language.lower.units import aligned, in_units, scale_of
from policy_sched.language.stdlib import (
    double_of_units,
    fraction_of_text,
    is_whole,
    thousandths_in,
    whole_of_units,
    whole_or_fault,
)
from policy_sched.language.syntax import Span
from policy_sched.language.values import BOOL, CONVERSION, DOUBLE, INT, Interval, QuantityType, Type

Handler = Callable[[Lowering, list[Abstract], Type, Span], Abstract]


def _number(low: Lowering, value: Abstract, span: Span) -> tuple[Value, int | Value]:
    """Return a quantity as an int of its units, and how many of these make one."""
    one = low.val(value)
    assert isinstance(one.type, QuantityType)
    scale = scale_of(low, one.type, span)
    number = Value(one.op, one.err, INT, low.range(one))
    return number, int(scale.value) if isinstance(scale, Constant) else scale


def _literal(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (text,) = args
    free = QuantityType(dimension="free")
    found: Abstract
    if isinstance(text, Constant):
        found = low.fold(fraction_of_text, [text.value], free, span)
    else:
        found = low.call(fraction_of_text, [low.val(text)], free, span, fallible=True)
    assert isinstance(result, QuantityType)
    if result.dimension in ("free", "any"):
        return found
    return in_units(low, found, result, span)


def _units(low: Lowering, args: list[Abstract], _result: Type, _span: Span) -> Abstract:
    one = low.val(args[0])
    return Value(one.op, one.err, INT, one.range)


def _value(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one, scale = _number(low, args[0], span)
    return one if scale == 1 else _whole_ones(low, one, scale, span)


def _whole_ones(low: Lowering, one: Value, scale: int | Value, span: Span) -> Value:
    """Return units as whole ones, rounded away from zero."""
    low_end, high_end = int(one.range.lo), int(one.range.hi)
    if isinstance(scale, Value):
        interval = Interval(min(low_end, 0), max(high_end, 0))
        return low.call(whole_of_units, [one, scale], INT, span, interval=interval)
    interval = Interval(whole_of_units(low_end, scale), whole_of_units(high_end, scale))
    return low.call(whole_of_units, [one, _int(low, scale)], INT, span, interval=interval)


def _milli(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one, scale = _number(low, args[0], span)
    if isinstance(scale, int):
        return one if scale == 1000 else whole(low, ops.MUL, one, _int(low, 1000), INT, span)
    times = low.call(thousandths_in, [scale], INT, span, interval=Interval(1, 1000))
    return whole(low, ops.MUL, one, times, INT, span)


def _int(low: Lowering, number: int) -> Value:
    return low.val(low.int_const(number))


def _sign(low: Lowering, args: list[Abstract], _result: Type, _span: Span) -> Abstract:
    return sign_of(low, low.val(args[0]))


def _compare(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    a, b, _ = aligned(low, args[0], args[1], span)
    greater, less = (low.op(kind, a.op, b.op, rep="b") for kind in (ops.GT, ops.LT))
    signs = [low.op(ops.TRUE_INT, op, rep="i") for op in (greater, less)]
    return Value(low.op(ops.SUB, *signs, rep="i"), low.first(a.err, b.err), INT, Interval(-1, 1))


def _is_integer(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one, scale = _number(low, args[0], span)
    if scale == 1:
        return with_error(low, Constant(True, BOOL), one.err)
    divisor = _int(low, scale) if isinstance(scale, int) else scale
    return low.call(is_whole, [one, divisor], BOOL, span)


def _as_integer(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one, scale = _number(low, args[0], span)
    if isinstance(scale, Value):
        return low.call(whole_or_fault, [one, scale], INT, span, fallible=True)
    if scale == 1:
        return one
    rest = low.op(ops.REMAINDER, one.op, low.build.const(scale, "i"), rep="i")
    broken = low.op(ops.NE, rest, low.build.const(0, "i"), rep="b")
    own = low.error_if(broken, low.build.site(CONVERSION, "", span))
    found = _whole_ones(low, one, scale, span)
    return Value(found.op, low.first(one.err, own), INT, found.range)


def _as_double(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one, scale = _number(low, args[0], span)
    if scale == 1:
        return to_double(low, one)
    divisor = _int(low, scale) if isinstance(scale, int) else scale
    return low.call(double_of_units, [one, divisor], DOUBLE, span)


QUANTITIES: Final[dict[str, Handler]] = {
    "quantity_string": _literal,
    "units_quantity": _units,
    "value_quantity": _value,
    "milli_quantity": _milli,
    "sign_quantity": _sign,
    "compareTo_quantity_quantity": _compare,
    "isInteger_quantity": _is_integer,
    "asInteger_quantity": _as_integer,
    "asApproximateFloat_quantity": _as_double,
}
