"""Lowers arithmetic: chooses for each operation the cheapest variant that its range allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from policy_sched.cluster.tables import NODE_COLUMNS, Kind
from policy_sched.language import values
from policy_sched.language.ir import Call, Op, OpKind, ops
from policy_sched.language.lower.abstract_values import Abstract, Constant, Value, truth
from policy_sched.language.lower.context import Lowering
from policy_sched.language.stdlib import amount
from policy_sched.language.syntax import Span
from policy_sched.language.values import intervals as ranges, types

#: By kind: the range of the result, and the variant that checks for overflow.
_INTS: Final = {
    ops.ADD: (ranges.add, ops.ADD_CHECKED),
    ops.SUB: (ranges.sub, ops.SUB_CHECKED),
    ops.MUL: (ranges.mul, ops.MUL_CHECKED),
}
_DOUBLES: Final = {
    ops.FADD: ranges.double_add,
    ops.FSUB: ranges.double_sub,
    ops.FMUL: ranges.double_mul,
    ops.FDIV: ranges.double_div,
}


def whole(low: Lowering, kind: OpKind, a: Value, b: Value, result: types.Type, span: Span) -> Value:
    """Lower a sum, difference or product of int64, checked where the range may leave it."""
    find, checked = _INTS[kind]
    interval = find(low.range(a), low.range(b))
    error = low.first(a.err, b.err)
    if ranges.fits(interval):
        return Value(low.op(kind, a.op, b.op, rep="i"), error, result, interval)
    site = low.build.site(values.OVERFLOW, "", span)
    both = low.op(checked, a.op, b.op, rep="ti", data=site)
    value, own = low.pair(both, "i")
    return Value(value, low.first(error, own), result, ranges.cut(interval))


def negated(low: Lowering, a: Value, result: types.Type, span: Span) -> Value:
    """Lower the sign before an int64."""
    return whole(low, ops.SUB, low.val(Constant(0, result)), a, result, span)


def quotient(
    low: Lowering, a: Value, b: Value, result: types.Type, span: Span, *, rest: bool = False
) -> Value:
    """Lower the truncated int64 quotient, or the remainder."""
    over, under = low.range(a), low.range(b)
    error = low.first(a.err, b.err)
    if under.has(0):
        zero = low.op(ops.EQ, b.op, low.build.const(0, "i"), rep="b")
        site = low.build.site(values.DIVIDE_BY_ZERO, "", span)
        error = low.first(error, low.error_if(zero, site))
    if over.has(values.INT_MIN) and under.has(-1):
        least = low.op(ops.EQ, a.op, low.build.const(values.INT_MIN, "i"), rep="b")
        minus = low.op(ops.EQ, b.op, low.build.const(-1, "i"), rep="b")
        both = low.op(ops.AND, least, minus, rep="b")
        error = low.first(error, low.error_if(both, low.build.site(values.OVERFLOW, "", span)))
    if rest:
        return Value(
            low.op(ops.REMAINDER, a.op, b.op, rep="i"), error, result, ranges.remainder(over, under)
        )
    kind = ops.FLOOR_DIVIDE if over.lo >= 0 and under.lo >= 0 else ops.QUOTIENT
    interval = ranges.cut(ranges.quotient(over, under))
    return Value(low.op(kind, a.op, b.op, rep="i"), error, result, interval)


def double(low: Lowering, kind: OpKind, a: Value, b: Value) -> Value:
    """Lower a sum, difference, product or quotient of doubles."""
    left, right = low.range(a), low.range(b)
    bounds = _DOUBLES[kind](left, right)
    unsigned = b.op.kind is ops.TO_DOUBLE  # the zero of an int has no sign
    if kind is ops.FDIV and bounds == values.DOUBLES and unsigned and min(left.lo, right.lo) >= 0:
        bounds = values.Interval(0.0, math.inf, nan=True)
    return Value(low.op(kind, a.op, b.op, rep="f"), low.first(a.err, b.err), types.DOUBLE, bounds)


def to_double(low: Lowering, a: Value) -> Value:
    """Lower the nearest double of an int."""
    if a.op.rep == "f":
        return a
    interval = ranges.to_double(low.range(a))
    return Value(low.op(ops.TO_DOUBLE, a.op, rep="f"), a.err, types.DOUBLE, interval)


def to_int(low: Lowering, a: Value, span: Span, result: types.Type = types.INT) -> Value:
    """Lower the truncation of a double."""
    interval = low.range(a)
    if interval.within(-(2.0**62), 2.0**62):
        small = interval.within(-(2.0**31), 2.0**31 - 1)
        op = low.op(ops.TRUNCATE_SMALL if small else ops.TRUNCATE, a.op, rep="i")
        return Value(op, a.err, result, ranges.to_int(interval))
    first = low.build.sites_of_call((), span)
    op = low.op(ops.TO_INT, a.op, rep="ti", data=first + values.OVERFLOW - 1)
    value, own = low.pair(op, "i")
    return Value(value, low.first(a.err, own), result, ranges.to_int(interval))


def rounded(low: Lowering, a: Value) -> Value:
    """Lower math.round: halves away from zero."""
    interval = ranges.rounded(low.range(a))
    return Value(low.op(ops.ROUND, a.op, rep="f"), a.err, types.DOUBLE, interval)


def extreme(low: Lowering, a: Value, b: Value, sign: int) -> Value:
    """Lower min (sign -1) or max (sign 1) of two numbers of one type."""
    kind = ops.MIN if sign < 0 else ops.MAX
    find = ranges.least if sign < 0 else ranges.greatest
    interval = find(low.range(a), low.range(b))
    rep = "f" if "f" in (a.op.rep, b.op.rep) else "i"
    return Value(low.op(kind, a.op, b.op, rep=rep), low.first(a.err, b.err), a.type, interval)


def magnitude(low: Lowering, a: Value, span: Span) -> Value:
    """Lower abs."""
    if a.op.rep == "f":
        interval = ranges.magnitude(low.range(a))
        return Value(low.op(ops.FABS, a.op, rep="f"), a.err, a.type, interval)
    return extreme(low, a, negated(low, a, a.type, span), 1)


def sign_of(low: Lowering, a: Value) -> Value:
    """Lower -1, 0 or 1 of an int."""
    interval = low.range(a)
    low_end = -1 if interval.lo < 0 else (0 if interval.lo == 0 else 1)
    high_end = 1 if interval.hi > 0 else (0 if interval.hi == 0 else -1)
    return Value(
        low.op(ops.SIGN, a.op, rep="i"), a.err, types.INT, values.Interval(low_end, high_end)
    )


def percent(low: Lowering, part: Value, total: Value) -> Value:
    """Lower percent of two numbers of one unit."""
    error = low.first(part.err, total.err)
    kind, data = _percent_kind(part, total)
    op = low.op(kind, part.op, total.op, rep="i", data=data)
    return Value(op, error, types.INT, values.Interval(0, 100))


def _percent_kind(part: Value, total: Value) -> tuple[OpKind, tuple[str, ...] | None]:
    """Return the variant of percent: the ends of a static column are known, a rest is a part."""
    data = total.op.data
    if total.op.kind is not ops.COLUMN or not isinstance(data, tuple):
        return ops.PERCENT, None
    if NODE_COLUMNS[data[0]].kind is not Kind.STATIC:
        return ops.PERCENT, None
    op = part.op
    if op.kind is ops.SUB and op.args[0] is total.op and _never_negative(op.args[1]):
        return ops.PERCENT_OF_REST, data
    return ops.PERCENT_OF_COLUMN, data


def _never_negative(op: Op) -> bool:
    """Return whether an int is never negative, without facts of its position."""
    match op.kind:
        case ops.COLUMN:
            assert isinstance(op.data, tuple)
            return NODE_COLUMNS[op.data[0]].minimum >= 0
        case ops.CONST:
            return isinstance(op.data, int) and op.data >= 0
        case ops.CALL:
            whole_of = op.args[0]
            of_pod = whole_of.kind is ops.FIELD_OF_POD and whole_of.rep == "o"
            return isinstance(op.data, Call) and op.data.function is amount and of_pod
    return op.kind is ops.ADD and all(map(_never_negative, op.args))


#: Comparisons of an int and a double that no double need equal.
_EXACT: Final = {
    ops.LT: ops.LT_EXACT,
    ops.LE: ops.LE_EXACT,
    ops.GT: ops.GT_EXACT,
    ops.GE: ops.GE_EXACT,
}


def comparison(low: Lowering, kind: OpKind, a: Value, b: Value) -> Abstract:
    """Lower <, <=, > or >= of two numbers; ints and doubles compare exactly."""
    left, right = low.range(a), low.range(b)
    error = low.first(a.err, b.err)
    order = _known_order(kind, left, right)
    if order is not None and error is None:
        return Constant(order, types.BOOL)
    mixed = a.op.rep != b.op.rep
    if mixed and not (ranges.exact(left) or ranges.exact(right)):
        kind = _EXACT[kind]
    return truth(low.op(kind, a.op, b.op, rep="b"), error)


def _known_order(kind: OpKind, left: values.Interval, right: values.Interval) -> bool | None:
    if left.nan or right.nan:
        return None
    if kind in (ops.GT, ops.GE):
        left, right = right, left
    if kind in (ops.LT, ops.GT):
        return True if left.hi < right.lo else (False if left.lo >= right.hi else None)
    return True if left.hi <= right.lo else (False if left.lo > right.hi else None)


Binary = Callable[[Lowering, Value, Value, types.Type, Span], Abstract]


def _whole(kind: OpKind) -> Binary:
    return lambda low, a, b, result, span: whole(low, kind, a, b, result, span)


def _double(kind: OpKind) -> Binary:
    return lambda low, a, b, _result, _span: double(low, kind, a, b)


def _order(kind: OpKind) -> Binary:
    return lambda low, a, b, _result, _span: comparison(low, kind, a, b)


#: Binary operators on numbers by overload; quantities are brought to one unit before.
BINARY: Final[dict[str, Binary]] = {
    "add_int_int": _whole(ops.ADD),
    "sub_int_int": _whole(ops.SUB),
    "mul_int_int": _whole(ops.MUL),
    "add_quantity_quantity": _whole(ops.ADD),
    "sub_quantity_quantity": _whole(ops.SUB),
    "mul_quantity_int": _whole(ops.MUL),
    "mul_int_quantity": _whole(ops.MUL),
    "div_int_int": quotient,
    "div_quantity_int": quotient,
    "mod_int_int": lambda low, a, b, r, s: quotient(low, a, b, r, s, rest=True),
    "div_quantity_quantity": lambda low, a, b, _r, _s: double(
        low, ops.FDIV, to_double(low, a), to_double(low, b)
    ),
    "add_double_double": _double(ops.FADD),
    "sub_double_double": _double(ops.FSUB),
    "mul_double_double": _double(ops.FMUL),
    "div_double_double": _double(ops.FDIV),
    **{
        f"{kind.name}_{left}_{right}": _order(kind)
        for kind in (ops.LT, ops.LE, ops.GT, ops.GE)
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
    "isLessThan_quantity_quantity": _order(ops.LT),
    "isGreaterThan_quantity_quantity": _order(ops.GT),
    "percent_int_int": lambda low, a, b, _r, _s: percent(low, a, b),
    "percent_quantity_quantity": lambda low, a, b, _r, _s: percent(low, a, b),
}
