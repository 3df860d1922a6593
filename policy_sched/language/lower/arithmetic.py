"""Lowers arithmetic: chooses for each operation the cheapest variant that its range allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from policy_sched.cluster.tables import NODE_COLUMNS, Kind
from policy_sched.language.ir import Call, Op
from policy_sched.language.lower.abstract_values import Abstract, Constant, Value
from policy_sched.language.lower.context import Lowering
from policy_sched.language.stdlib import amount
from policy_sched.language.syntax import Span
from policy_sched.language.values import (
    BOOL,
    BOOLS,
    DIVIDE_BY_ZERO,
    DOUBLE,
    DOUBLES,
    INT,
    INT_MIN,
    OVERFLOW,
    Interval,
    Type,
)
from policy_sched.language.values import intervals as ranges

_RANGES: Final = {"add": ranges.add, "sub": ranges.sub, "mul": ranges.mul}
_DOUBLE_RANGES: Final = {
    "fadd": ranges.double_add,
    "fsub": ranges.double_sub,
    "fmul": ranges.double_mul,
    "fdiv": ranges.double_div,
}


def whole(low: Lowering, kind: str, a: Value, b: Value, result: Type, span: Span) -> Value:
    """Lower ``add``, ``sub`` or ``mul`` of int64, checked where the range may leave it."""
    found = _RANGES[kind](low.range(a), low.range(b))
    error = low.first(a.err, b.err)
    if ranges.fits(found):
        return Value(low.op(kind, a.op, b.op, rep="i"), error, result, found)
    site = low.build.site(OVERFLOW, "", span)
    both = low.op(f"{kind}_checked", a.op, b.op, rep="ti", data=site)
    value, own = low.pair(both, "i")
    return Value(value, low.first(error, own), result, ranges.cut(found))


def negated(low: Lowering, a: Value, result: Type, span: Span) -> Value:
    """Lower the sign before an int64."""
    return whole(low, "sub", low.val(Constant(0, result)), a, result, span)


def quotient(
    low: Lowering, a: Value, b: Value, result: Type, span: Span, *, rest: bool = False
) -> Value:
    """Lower the truncated int64 quotient, or the remainder."""
    over, under = low.range(a), low.range(b)
    error = low.first(a.err, b.err)
    if under.has(0):
        zero = low.op("eq", b.op, low.build.const(0, "i"), rep="b")
        site = low.build.site(DIVIDE_BY_ZERO, "", span)
        error = low.first(error, low.error_if(zero, site))
    if over.has(INT_MIN) and under.has(-1):
        least = low.op("eq", a.op, low.build.const(INT_MIN, "i"), rep="b")
        minus = low.op("eq", b.op, low.build.const(-1, "i"), rep="b")
        both = low.op("and", least, minus, rep="b")
        error = low.first(error, low.error_if(both, low.build.site(OVERFLOW, "", span)))
    if rest:
        return Value(
            low.op("rem", a.op, b.op, rep="i"), error, result, ranges.remainder(over, under)
        )
    kind = "quot_nn" if over.lo >= 0 and under.lo >= 0 else "quot"
    found = ranges.cut(ranges.quotient(over, under))
    return Value(low.op(kind, a.op, b.op, rep="i"), error, result, found)


def double(low: Lowering, kind: str, a: Value, b: Value) -> Value:
    """Lower ``fadd``, ``fsub``, ``fmul`` or ``fdiv``."""
    left, right = low.range(a), low.range(b)
    found = _DOUBLE_RANGES[kind](left, right)
    unsigned = b.op.kind == "to_double"  # the zero of an int has no sign
    if kind == "fdiv" and found == DOUBLES and unsigned and left.lo >= 0 and right.lo >= 0:
        found = Interval(0.0, math.inf, nan=True)
    return Value(low.op(kind, a.op, b.op, rep="f"), low.first(a.err, b.err), DOUBLE, found)


def to_double(low: Lowering, a: Value) -> Value:
    """Lower the nearest double of an int."""
    if a.op.rep == "f":
        return a
    found = ranges.to_double(low.range(a))
    return Value(low.op("to_double", a.op, rep="f"), a.err, DOUBLE, found)


def to_int(low: Lowering, a: Value, span: Span, result: Type = INT) -> Value:
    """Lower the truncation of a double."""
    found = low.range(a)
    if found.within(-(2.0**62), 2.0**62):
        op = low.op("truncate", a.op, rep="i")
        return Value(op, a.err, result, ranges.to_int(found))
    first = low.build.sites_of_call((), span)
    op = low.op("to_int", a.op, rep="ti", data=first + OVERFLOW - 1)
    value, own = low.pair(op, "i")
    return Value(value, low.first(a.err, own), result, ranges.to_int(found))


def rounded(low: Lowering, a: Value) -> Value:
    """Lower math.round: halves away from zero."""
    found = ranges.rounded(low.range(a))
    return Value(low.op("round", a.op, rep="f"), a.err, DOUBLE, found)


def extreme(low: Lowering, a: Value, b: Value, sign: int) -> Value:
    """Lower min (sign -1) or max (sign 1) of two numbers of one type."""
    kind = "min2" if sign < 0 else "max2"
    find = ranges.least if sign < 0 else ranges.greatest
    found = find(low.range(a), low.range(b))
    rep = "f" if "f" in (a.op.rep, b.op.rep) else "i"
    return Value(low.op(kind, a.op, b.op, rep=rep), low.first(a.err, b.err), a.type, found)


def magnitude(low: Lowering, a: Value, span: Span) -> Value:
    """Lower abs."""
    if a.op.rep == "f":
        found = ranges.magnitude(low.range(a))
        return Value(low.op("fabs", a.op, rep="f"), a.err, a.type, found)
    return extreme(low, a, negated(low, a, a.type, span), 1)


def sign_of(low: Lowering, a: Value) -> Value:
    """Lower -1, 0 or 1 of an int."""
    found = low.range(a)
    low_end = -1 if found.lo < 0 else (0 if found.lo == 0 else 1)
    high_end = 1 if found.hi > 0 else (0 if found.hi == 0 else -1)
    return Value(low.op("sign", a.op, rep="i"), a.err, INT, Interval(low_end, high_end))


def percent(low: Lowering, part: Value, total: Value) -> Value:
    """Lower percent of two numbers of one unit."""
    error = low.first(part.err, total.err)
    kind, data = _percent_kind(part, total)
    op = low.op(kind, part.op, total.op, rep="i", data=data)
    return Value(op, error, INT, Interval(0, 100))


def _percent_kind(part: Value, total: Value) -> tuple[str, tuple[str, ...] | None]:
    """Return the variant of percent: the ends of a static column are known, a rest is a part."""
    data = total.op.data
    if total.op.kind != "column" or not isinstance(data, tuple):
        return "percent", None
    if NODE_COLUMNS[data[0]].kind is not Kind.STATIC:
        return "percent", None
    op = part.op
    if op.kind == "sub" and op.args[0] is total.op and _never_negative(op.args[1]):
        return "percent_of_rest", data
    return "percent_of_column", data


def _never_negative(op: Op) -> bool:
    """Tell whether an int is never negative, without facts of its position."""
    match op.kind:
        case "column":
            assert isinstance(op.data, tuple)
            return NODE_COLUMNS[op.data[0]].minimum >= 0
        case "const":
            return isinstance(op.data, int) and op.data >= 0
        case "call":
            whole_of = op.args[0]
            of_pod = whole_of.kind == "field_of_pod" and whole_of.rep == "o"
            return isinstance(op.data, Call) and op.data.function is amount and of_pod
    return op.kind == "add" and all(map(_never_negative, op.args))


def comparison(low: Lowering, kind: str, a: Value, b: Value) -> Abstract:
    """Lower ``lt``, ``le``, ``gt`` or ``ge`` of two numbers; ints and doubles compare exactly."""
    left, right = low.range(a), low.range(b)
    error = low.first(a.err, b.err)
    known = _known_order(kind, left, right)
    if known is not None and error is None:
        return Constant(known, BOOL)
    mixed = a.op.rep != b.op.rep
    if mixed and not (ranges.exact(left) or ranges.exact(right)):
        kind += "_exact"
    return Value(low.op(kind, a.op, b.op, rep="b"), error, BOOL, BOOLS)


def _known_order(kind: str, left: Interval, right: Interval) -> bool | None:
    if left.nan or right.nan:
        return None
    if kind in ("gt", "ge"):
        left, right, kind = right, left, {"gt": "lt", "ge": "le"}[kind]
    if kind == "lt":
        return True if left.hi < right.lo else (False if left.lo >= right.hi else None)
    return True if left.hi <= right.lo else (False if left.lo > right.hi else None)


Binary = Callable[[Lowering, Value, Value, Type, Span], Abstract]


def _whole(kind: str) -> Binary:
    return lambda low, a, b, result, span: whole(low, kind, a, b, result, span)


def _double(kind: str) -> Binary:
    return lambda low, a, b, _result, _span: double(low, kind, a, b)


def _order(kind: str) -> Binary:
    return lambda low, a, b, _result, _span: comparison(low, kind, a, b)


#: Binary operators on numbers by overload; quantities are brought to one unit before.
BINARY: Final[dict[str, Binary]] = {
    **{f"{kind}_int_int": _whole(kind) for kind in ("add", "sub", "mul")},
    "add_quantity_quantity": _whole("add"),
    "sub_quantity_quantity": _whole("sub"),
    "mul_quantity_int": _whole("mul"),
    "mul_int_quantity": _whole("mul"),
    "div_int_int": quotient,
    "div_quantity_int": quotient,
    "mod_int_int": lambda low, a, b, r, s: quotient(low, a, b, r, s, rest=True),
    "div_quantity_quantity": lambda low, a, b, _r, _s: double(
        low, "fdiv", to_double(low, a), to_double(low, b)
    ),
    "add_double_double": _double("fadd"),
    "sub_double_double": _double("fsub"),
    "mul_double_double": _double("fmul"),
    "div_double_double": _double("fdiv"),
    **{
        f"{kind}_{left}_{right}": _order(kind)
        for kind in ("lt", "le", "gt", "ge")
        for left, right in (
            ("int", "int"),
            ("int", "double"),
            ("double", "int"),
            ("double", "double"),
            ("bool", "bool"),
            ("duration", "duration"),
            ("timestamp", "timestamp"),
            ("quantity", "quantity"),
        )
    },
    "isLessThan_quantity_quantity": _order("lt"),
    "isGreaterThan_quantity_quantity": _order("gt"),
    "percent_int_int": lambda low, a, b, _r, _s: percent(low, a, b),
    "percent_quantity_quantity": lambda low, a, b, _r, _s: percent(low, a, b),
}
