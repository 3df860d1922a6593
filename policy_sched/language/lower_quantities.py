"""Lowers the methods of quantities, which are ints in the scheduler's unit of their dimension."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from policy_sched.language.abstract import Abstract, Static, Val
from policy_sched.language.ir import CONVERSION
from policy_sched.language.kernels_numbers import fraction_of_text, units_of_fraction
from policy_sched.language.lower_numbers import aligned, sign_of, to_double, whole
from policy_sched.language.lowering import Lowering, Refusal
from policy_sched.language.ranges import Interval
from policy_sched.language.typed import Span
from policy_sched.language.types import BOOL, DOUBLE, INT, QuantityType, Type

Handler = Callable[[Lowering, list[Abstract], Type, Span], Abstract]


def _is_cpu(value: Val, span: Span) -> bool:
    """Tell whether a quantity counts thousandths; refuse what is only known at run time."""
    assert isinstance(value.type, QuantityType)
    if value.type.dimension == "any":
        raise Refusal(
            "PS211",
            "which unit the amount has depends on a name that is only known at run time",
            span,
            "use .units()",
        )
    return value.type.dimension == "cpu"


def _literal(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (text,) = args
    if not isinstance(text, Static):
        return low.call(fraction_of_text, [low.val(text)], result, span, fallible=True)
    folded = low.fold(fraction_of_text, [text.value], result, span)
    assert isinstance(result, QuantityType)
    if result.dimension in ("free", "any") or not isinstance(folded, Static):
        return (
            Static(folded.value, QuantityType(dimension="free"))
            if (isinstance(folded, Static))
            else folded
        )
    assert isinstance(folded.value, Fraction)
    scale = 1000 if result.dimension == "cpu" else 1
    return Static(units_of_fraction(folded.value, scale), result)


def _units(low: Lowering, args: list[Abstract], _result: Type, _span: Span) -> Abstract:
    one = low.val(args[0])
    return Val(one.op, one.err, INT, one.range)


def _value(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one = low.val(args[0])
    if not _is_cpu(one, span):
        return Val(one.op, one.err, INT, one.range)
    return _rounded_thousandth(low, one, span)


def _rounded_thousandth(low: Lowering, one: Val, span: Span) -> Val:
    """Return milli units as whole ones, rounded away from zero."""
    found = low.range(one)
    interval = Interval(
        units_of_fraction(Fraction(int(found.lo), 1000), 1),
        units_of_fraction(Fraction(int(found.hi), 1000), 1),
    )
    return low.call(_up, [one], INT, span, interval=interval)


def _up(milli: int) -> int:
    return -(-milli // 1000) if milli >= 0 else milli // 1000


def _milli(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one = low.val(args[0])
    if _is_cpu(one, span):
        return Val(one.op, one.err, INT, one.range)
    return whole(low, "mul", one, low.val(low.int_const(1000)), INT, span)


def _sign(low: Lowering, args: list[Abstract], _result: Type, _span: Span) -> Abstract:
    return sign_of(low, low.val(args[0]))


def _compare(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    a, b, kind = aligned(low, args[0], args[1], span)
    return sign_of(low, whole(low, "sub", a, b, kind, span))


def _is_integer(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one = low.val(args[0])
    if not _is_cpu(one, span):
        return Static(True, BOOL)
    return low.call(lambda milli: milli % 1000 == 0, [one], BOOL, span)


def _as_integer(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one = low.val(args[0])
    if not _is_cpu(one, span):
        return Val(one.op, one.err, INT, one.range)
    rest = low.op("rem", one.op, low.build.const(1000, "i"), rep="i")
    broken = low.op("ne", rest, low.build.const(0, "i"), rep="b")
    own = low.error_if(broken, low.build.site(CONVERSION, "", span))
    found = _rounded_thousandth(low, one, span)
    return Val(found.op, low.first(one.err, own), INT, found.range)


def _as_double(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    one = low.val(args[0])
    if not _is_cpu(one, span):
        return to_double(low, Val(one.op, one.err, INT, one.range))
    return low.call(lambda milli: float(Fraction(milli, 1000)), [one], DOUBLE, span)


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
