"""Lowers aggregates of lists: size, sum, mean, deviation, weighted mean, extremes."""

from __future__ import annotations

from typing import Final

from policy_sched.language.ir import LoopKind, Op, OpKind, ops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Comprehension,
    Constant,
    MaskedList,
    Value,
    rep_of,
)
from policy_sched.language.lower.arithmetic import double, extreme, to_double, whole
from policy_sched.language.lower.comprehensions import masked_count
from policy_sched.language.lower.context import Handler, Lowering, element_type
from policy_sched.language.lower.loops import MAX_API_LIST, MAX_LENGTH, count, run_loop
from policy_sched.language.lower.units import is_free
from policy_sched.language.stdlib import BUILTINS, double_total, free_total, total
from policy_sched.language.syntax import Span
from policy_sched.language.values import DOUBLE, INT, OVERFLOW, Interval, Type
from policy_sched.language.values import intervals as ranges

#: Lists of the pod to the attribute that holds their length.
_COUNTED: Final = {"containers": "container_count"}


def _size(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (value,) = args
    if isinstance(value, MaskedList):
        return masked_count(low, value)
    if isinstance(value, Comprehension):
        return count(low, value)
    found = low.val(value)
    if found.op.kind is ops.PODS_AT:
        op = low.node_op(ops.COLUMN, rep="i", data=("podCount",))
        return Value(op, found.err, INT, Interval(0, MAX_LENGTH))
    interval = Interval(0, MAX_API_LIST if found.op.kind is ops.FIELD_OF_POD else MAX_LENGTH)
    if found.op.kind is ops.FIELD_OF_POD and found.op.data in _COUNTED:
        # Pods whose lists differ are alike to a rule that reads only how long they are.
        data = _COUNTED[found.op.data]
        return Value(
            low.op(ops.FIELD_OF_POD, *found.op.args, rep="i", data=data), None, INT, interval
        )
    return low.call(len, [found], result, span, interval=interval)


def _where_masked(low: Lowering, mask: Value | None, item: Value, zero: Op) -> Value:
    if mask is None:
        return item
    op = low.op(ops.WHERE, mask.op, item.op, zero, rep=item.op.rep)
    found = ranges.hull(low.range(item), ranges.point(0 if zero.rep == "i" else 0.0))
    return Value(op, None, item.type, found)


def _sum(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (value,) = args
    kind = element_type(value.type)
    rep = rep_of(kind)
    if is_free(kind):
        if isinstance(value, Constant):
            return low.fold(free_total, [value.value], kind, span)
        return low.call(free_total, [low.val(value)], kind, span)
    if isinstance(value, Constant):
        return low.fold(double_total if rep == "f" else total, [value.value], result, span)
    if isinstance(value, MaskedList):
        return _sum_of_masked(low, value, result, span, rep)
    if isinstance(value, Comprehension):
        inner = low.plain(value.value)
        if rep == "f":
            return run_loop(low, value, LoopKind.SUM_DOUBLE, inner.op, result, "f")
        one = low.range(inner)
        bounds = ranges.mul(one, Interval(0, MAX_LENGTH))
        site = 0 if ranges.fits(bounds) else low.build.site(OVERFLOW, "", span)
        return run_loop(
            low,
            value,
            LoopKind.SUM_INT,
            inner.op,
            result,
            "i",
            site=site,
            interval=ranges.cut(bounds),
        )
    if rep == "f":
        return low.call(double_total, [low.val(value)], result, span)
    return low.call(total, [low.val(value)], result, span, fallible=True)


def _sum_of_masked(
    low: Lowering, value: MaskedList, result: Type, span: Span, rep: str
) -> Abstract:
    zero = low.build.const(0 if rep == "i" else 0.0, rep)
    found = low.val(Constant(0 if rep == "i" else 0.0, result))
    for mask, item in value.items:
        part = _where_masked(low, mask, low.plain(item), zero)
        if rep == "f":
            found = double(low, ops.FADD, found, part)
        elif found.op is zero:
            found = Value(part.op, part.err, result, low.range(part))
        else:
            found = whole(low, ops.ADD, found, part, result, span)
    return Value(found.op, low.first(value.err, found.err), result, found.range)


def _flat(low: Lowering, value: MaskedList) -> tuple[list[Op], Interval]:
    """Return (mask, value, mask, value, ...) and the range of the values."""
    parts: list[Op] = []
    found: Interval | None = None
    for mask, item in value.items:
        with low.assuming((mask, True)):
            one = to_double(low, low.val(item))
            interval = low.range(one)
        found = interval if found is None else ranges.hull(found, interval)
        parts += [low.true() if mask is None else mask.op, one.op]
    return parts, found or Interval(0.0, 0.0)


def _statistic(kind: OpKind) -> Handler:
    def lower(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
        (value,) = args
        if not isinstance(value, MaskedList):
            builtin = BUILTINS["mean_list" if kind is ops.MASKED_MEAN else "stddev_list"]
            return low.call(builtin.function, [low.val(value)], result, span)
        parts, found = _flat(low, value)
        interval = (
            ranges.mean(found)
            if kind is ops.MASKED_MEAN
            else ranges.deviation(found, len(value.items))
        )
        two = kind is ops.MASKED_DEVIATION and len(value.items) == 2
        op = low.op(ops.MASKED_DEVIATION_OF_TWO if two else kind, *parts, rep="f")
        return Value(op, value.err, DOUBLE, interval)

    return lower


def _weighted_mean(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    values, weights = args
    if isinstance(values, Constant | MaskedList) and isinstance(weights, Constant | MaskedList):
        cheap = _weighted_masked(low, _as_masked(values), _as_masked(weights))
        if cheap is not None:
            return cheap
    builtin = BUILTINS["weightedMean_list_list"]
    return low.call(
        builtin.function, [low.val(values), low.val(weights)], result, span, fallible=True
    )


def _as_masked(value: Constant | MaskedList) -> MaskedList:
    if isinstance(value, MaskedList):
        return value
    return MaskedList(tuple((None, Constant(x, INT)) for x in value.value), None, value.type)


def _weighted_masked(low: Lowering, values: MaskedList, weights: MaskedList) -> Value | None:
    """Return the weighted mean where masks agree and ranges exclude overflow and signs."""
    if len(values.items) != len(weights.items):
        return None
    parts: list[Op] = []
    top = total = 0.0
    found = Interval(0, 0)
    for (mask, item), (other, weight) in zip(values.items, weights.items, strict=True):
        if (mask and mask.op) is not (other and other.op):
            return None
        one, by = low.val(item), low.val(weight)
        with low.assuming((mask, True)):
            value_range, weight_range = low.range(one), low.range(by)
        if value_range.lo < 0 or weight_range.lo < 0:
            return None
        found = ranges.hull(found, value_range)
        top += value_range.hi * weight_range.hi
        total += weight_range.hi
        parts += [low.true() if mask is None else mask.op, one.op, by.op]
    if top > ranges.INT_MAX or total > ranges.INT_MAX:
        return None
    error = low.first(values.err, weights.err)
    return Value(low.op(ops.MASKED_WEIGHTED, *parts, rep="i"), error, INT, found)


def _extreme(sign: int) -> Handler:
    def lower(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
        (value,) = args
        if (
            isinstance(value, MaskedList)
            and value.items
            and rep_of(element_type(value.type)) in "if"
        ):
            masked = any(mask is not None for mask, _ in value.items)
            if not masked:
                best = low.val(value.items[0][1])
                for _, item in value.items[1:]:
                    best = extreme(low, best, low.val(item), sign)
                return Value(best.op, low.first(value.err, best.err), best.type, best.range)
        builtin = BUILTINS["max_list" if sign > 0 else "min_list"]
        return low.call(builtin.function, [low.val(value)], result, span, fallible=True)

    return lower


AGGREGATES: Final[dict[str, Handler]] = {
    "size_list": _size,
    "size_map": _size,
    "sum_list": _sum,
    "mean_list": _statistic(ops.MASKED_MEAN),
    "stddev_list": _statistic(ops.MASKED_DEVIATION),
    "weightedMean_list_list": _weighted_mean,
    **{name: _extreme(1) for name in ("max_list", "math_greatest_list")},
    **{name: _extreme(-1) for name in ("min_list", "math_least_list")},
}
