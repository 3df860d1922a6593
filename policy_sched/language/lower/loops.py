"""Lowers comprehensions over run-time lists to loop ops, and aggregates of lists.

Theory of operation. A comprehension that has a name (a variable, `cel.bind`, an element that is a
list) may run more than once, also inside of itself. Its values are ops over its loop variable; a
second loop that makes something else of them gets copies of them over a fresh variable
(`AlphaRenaming`), and so do loops inside. Loops that make the same are one.
The aggregates are size, sum, mean, deviation, weighted mean and extremes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched.language.ir import (
    COUNTED_LOOPS,
    Builder,
    Loop,
    LoopKind,
    Op,
    OpKind,
    count_op,
    ops,
)
from policy_sched.language.lower import arithmetic
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Comprehension,
    Constant,
    MaskedList,
    Value,
    range_of,
    rep_of,
)
from policy_sched.language.lower.context import Handler, Lowering, Refusal, element_type
from policy_sched.language.lower.logic import with_error
from policy_sched.language.lower.units import is_free
from policy_sched.language.runtime import int64
from policy_sched.language.stdlib import BUILTINS, double_total, free_total, total
from policy_sched.language.syntax import Span
from policy_sched.language.values import BOOLS, OVERFLOW, Interval, intervals as ranges, types

#: No list is longer than this.
MAX_LENGTH = 2**31 - 1
#: No list of an object of the API is longer than this: the object has at most 1.5 MiB.
MAX_API_LIST = 2**20


def over(low: Lowering, value: Value, *, indexed: bool = False) -> Comprehension:
    """Return the comprehension that is a run-time list itself."""
    element = element_type(value.type)
    param = low.build.fresh(ops.PARAM, rep_of(element), value.op)
    index = low.build.fresh(ops.PARAM, "i", value.op) if indexed else None
    item = Value(param, None, element, range_of(element))
    return Comprehension(value.op, param, index, (), None, item, value.err, value.type)


_COUNT_HINT = (
    "count, sum or test its pods: cluster.pods.filter(p, ...).size(), .sum(p, ...) of ints, "
    ".exists(p, ...), .all(p, ...)"
)
_AROUND_HINT = (
    "it may read the pod that is scheduled, and no element of a loop around it; write the loop "
    "inside: cluster.pods.exists(p, pod.containers.exists(c, ...))"
)
_TOTAL_HINT = 'use `[?"key"]` for what a pod may lack, as in p.labels[?"app"].orValue("")'


def of_cluster(source: Op) -> bool:
    """Return whether a list is that of all pods of the cluster."""
    return source.kind is ops.ATTR and source.data == "pods" and source.args[0].kind is ops.CLUSTER


def _over_cluster(  # what a loop is, and what it makes
    low: Lowering, loop: Comprehension, kind: LoopKind, value: Op, own: Op | None, *, wide: bool
) -> Op:
    """Return the op that counts or sums pods of the cluster in place of a loop over them.

    Nothing lists these pods when a pod is scheduled. Raises Refusal for what is not counted.
    """
    if kind not in COUNTED_LOOPS or loop.index is not None:
        raise Refusal(
            "PS510", "the pods of the cluster are counted, never listed", None, _COUNT_HINT
        )
    if loop.errors or own is not None:
        message = "what is read of the pods of the cluster must not fail, and this can"
        raise Refusal("PS510", message, None, _TOTAL_HINT)
    test = low.true() if loop.mask is None else loop.mask.op
    summed = value if kind is LoopKind.SUM_INT else None
    if kind in (LoopKind.ALL, LoopKind.EXISTS):
        each = low.negation(value) if kind is LoopKind.ALL else value
        test = each if loop.mask is None else low.op(ops.AND, test, each, rep="b")
    if summed is None and test.kind is ops.CONST and test.data is True:
        pods: Op | None = low.op(ops.ATTR, *loop.source.args, rep="i", data="pod_count")
    else:
        kept = low.totals
        pods = count_op(low.build, ops.COUNT_ALL, loop.param, test, kept, summed=summed, wide=wide)
    if pods is None:
        message = "a count of the pods of the cluster reads the variable of a loop around it"
        raise Refusal("PS510", message, None, _AROUND_HINT)
    if kind in (LoopKind.COUNT, LoopKind.SUM_INT):
        return pods
    return low.op(
        ops.EQ if kind is LoopKind.ALL else ops.GT, pods, low.build.const(0, "i"), rep="b"
    )


def of_domain(source: Op) -> bool:
    """Return whether a list is that of a domain's pods or nodes, or of the cluster's pods."""
    if source.kind is ops.WHERE:  # no pods where there is no domain
        source = source.args[2]
    if source.kind is not ops.ATTR or source.data not in ("pods", "nodes"):
        return False
    return source.args[0].kind in (ops.DOMAIN_AT, ops.PARAM, ops.CLUSTER)


def refuse_node(test: Value, source: Op, span: Span) -> None:
    """Refuse a predicate over what a domain or the cluster has that reads the node: it would be
    evaluated for each of these and each node.
    """
    listed = source.args[2] if source.kind is ops.WHERE else source
    owner = "the cluster's" if of_cluster(source) else "a domain's"
    hint = "count pods by fields of the pod that is scheduled, or read node.pods"
    if listed.data == "nodes":
        hint = "compare nodes with the pod that is scheduled, or test the node outside of the loop"
    todo, seen = [test.op, *([] if test.err is None else [test.err])], set[Op]()
    while todo:
        op = todo.pop()
        if op.kind.by_row:
            raise Refusal(
                "PS509",
                f"this predicate over {owner} {listed.data} reads the node",
                span,
                hint,
            )
        if op not in seen:
            seen.add(op)
            todo.extend(op.args)


def run_loop(  # noqa: PLR0913  # what a loop is, and what it makes
    low: Lowering,
    loop: Comprehension,
    kind: LoopKind,
    value: Op,
    result: types.Type,
    rep: str,
    *,
    own: Op | None = None,
    site: int = 0,
    interval: Interval | None = None,
    first: Op | None = None,
) -> Value:
    """Return the op that runs a comprehension and makes ``kind`` of its values.

    ``value`` and ``own``, its error, are ops over the comprehension's variables. ``first``: what
    the accumulator of a fold is at first.
    """
    if of_cluster(loop.source):
        scalar = _over_cluster(low, loop, kind, value, own, wide=site != 0)
        return Value(scalar, loop.err, result, interval or range_of(result))
    mask = None if loop.mask is None else loop.mask.op
    same = (
        kind, loop.source, loop.param, loop.index, loop.errors, mask, value, own, rep, site, first,
    )  # fmt: skip
    op = low.loops.get(same)
    if op is None:
        op = low.loops[same] = _loop_op(low, loop, kind, (value, own, first), rep, site)
    outcome = low.op(ops.VAL, op, rep=rep)
    fails = bool(loop.errors) or own is not None or site != 0
    error = low.op(ops.ERR, op, rep="e") if fails else None
    return Value(outcome, low.first(loop.err, error), result, interval or range_of(result))


def _loop_op(
    low: Lowering,
    loop: Comprehension,
    kind: LoopKind,
    values: tuple[Op, Op | None, Op | None],
    rep: str,
    site: int,
) -> Op:
    """Return the op of a new loop. ``values``: what it makes, the error of that, and the first."""
    value, own, first = values
    if loop.param in low.run:
        loop, (new_value, own) = alpha_renamed(low.build, loop, value, own)
        assert new_value is not None
        value = new_value
    low.run.add(loop.param)
    masked = () if loop.mask is None else (loop.mask.op,)
    errors = tuple(part for part in (value, own, first) if part is not None)
    data = Loop(
        kind,
        loop.param.serial,
        None if loop.index is None else loop.index.serial,
        len(loop.errors),
        bool(masked),
        site,
    )
    return low.op(ops.LOOP, loop.source, *loop.errors, *masked, *errors, rep=f"t{rep}", data=data)


def count(low: Lowering, loop: Comprehension) -> Value:
    """Return how many values a comprehension has."""
    interval = Interval(0, MAX_LENGTH)
    return run_loop(low, loop, LoopKind.COUNT, low.true(), types.INT, "i", interval=interval)


def quantifier(low: Lowering, loop: Comprehension, test: Abstract, *, every: bool) -> Value:
    """Return whether a test holds for every (or any) value, absorbing errors as CEL does."""
    condition = low.val(test)
    kind = LoopKind.ALL if every else LoopKind.EXISTS
    return run_loop(
        low, loop, kind, condition.op, types.BOOL, "b", own=condition.err, interval=BOOLS
    )


def listed(low: Lowering, value: Comprehension) -> Value:
    """Return a comprehension as the list of its elements."""
    return run_loop(low, value, LoopKind.LIST, low.plain(value.value).op, value.type, "o")


class AlphaRenaming:
    """Copies ops, with loop variables in place of others."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._ops: dict[Op, Op] = {}
        self._changed: set[Op] = set()

    def variable(self, old: Op, source: Op) -> Op:
        """Return the fresh variable over ``source`` that takes the place of ``old``."""
        new = self._build.fresh(old.kind, old.rep, source)
        self._ops[old] = new
        self._changed.add(old)
        return new

    def op(self, op: Op) -> Op:
        """Return an op over the new variables."""
        if not op.params & self._changed:
            return op
        copy = self._ops.get(op)
        if copy is None:
            copy = self._ops[op] = self._copy(op)
        return copy

    def _copy(self, op: Op) -> Op:
        data = op.data
        if isinstance(data, Loop):
            source = self.op(op.args[0])
            own = {p.serial: p for a in op.args[1:] for p in a.params}
            param, index = own.get(data.param), own.get(data.index or 0)
            data = replace(
                data,
                param=self.variable(param, source).serial if param else data.param,
                index=self.variable(index, source).serial if index else data.index,
            )
        args = [self.op(a) for a in op.args]
        return self._build.op(op.kind, *args, rep=op.rep, data=data, level=op.level)

    def value(self, value: Any) -> Any:
        """Return an abstract value, or a tuple of them, over the new variables."""
        if isinstance(value, Op):
            return self.op(value)
        if isinstance(value, tuple):
            return tuple(self.value(part) for part in value)
        if isinstance(value, Constant) or not isinstance(value, msgspec.Struct):
            return value
        if isinstance(value, Comprehension):
            source = self.op(value.source)
            self.variable(value.param, source)
            if value.index is not None:
                self.variable(value.index, source)
        if type(value).__module__ != Value.__module__:
            return value
        parts = {name: self.value(getattr(value, name)) for name in value.__struct_fields__}
        return type(value)(**parts)


def alpha_renamed(
    build: Builder, loop: Comprehension, *others: Op | None
) -> tuple[Comprehension, list[Op | None]]:
    """Return a comprehension with variables of its own, and other ops of its body over them."""
    names = AlphaRenaming(build)
    return names.value(loop), [None if op is None else names.op(op) for op in others]


#: Lists of the pod to the attribute that holds their length.
_COUNTED: Final = {"containers": "container_count"}


def masked_count(low: Lowering, listed: MaskedList) -> Abstract:
    """Return how many values a list of masked values has."""
    masks = [m.op for m, _ in listed.items if m is not None]
    always = len(listed.items) - len(masks)
    if not masks:
        return with_error(low, Constant(always, types.INT), listed.err)
    masks += [low.true()] * always
    op = low.op(ops.MASKED_COUNT, *masks, rep="i")
    return Value(op, listed.err, types.INT, Interval(always, len(listed.items)))


def _size(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    (value,) = args
    if isinstance(value, MaskedList):
        return masked_count(low, value)
    if isinstance(value, Comprehension):
        return count(low, value)
    collection = low.val(value)
    if collection.op.kind is ops.PODS_AT:
        op = low.node_op(ops.COLUMN, rep="i", data=("podCount",))
        return Value(op, collection.err, types.INT, Interval(0, MAX_LENGTH))
    interval = Interval(0, MAX_API_LIST if collection.op.kind is ops.FIELD_OF_POD else MAX_LENGTH)
    if collection.op.kind is ops.FIELD_OF_POD and collection.op.data in _COUNTED:
        # Pods whose lists differ are alike to a rule that reads only how long they are.
        data = _COUNTED[collection.op.data]
        return Value(
            low.op(ops.FIELD_OF_POD, *collection.op.args, rep="i", data=data),
            None,
            types.INT,
            interval,
        )
    return low.call(len, [collection], result, span, interval=interval)


def _where_masked(low: Lowering, mask: Value | None, item: Value, zero: Op) -> Value:
    if mask is None:
        return item
    op = low.op(ops.WHERE, mask.op, item.op, zero, rep=item.op.rep)
    interval = ranges.hull(low.range(item), ranges.point(0 if zero.rep == "i" else 0.0))
    return Value(op, None, item.type, interval)


def _sum(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
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
        interval = low.range(inner)
        bounds = ranges.mul(interval, Interval(0, MAX_LENGTH))
        site = 0 if ranges.fits(bounds) else low.build.site(OVERFLOW, "", span)
        sum_of_all = run_loop(
            low,
            value,
            LoopKind.SUM_INT,
            inner.op,
            result,
            "i",
            site=site,
            interval=ranges.cut(bounds),
        )
        if site and of_cluster(value.source):
            return low.call(int64, [sum_of_all], result, span, fallible=True)
        return sum_of_all
    if rep == "f":
        return low.call(double_total, [low.val(value)], result, span)
    return low.call(total, [low.val(value)], result, span, fallible=True)


def _sum_of_masked(
    low: Lowering, value: MaskedList, result: types.Type, span: Span, rep: str
) -> Abstract:
    zero = low.build.const(0 if rep == "i" else 0.0, rep)
    sum_so_far = low.val(Constant(0 if rep == "i" else 0.0, result))
    for mask, item in value.items:
        part = _where_masked(low, mask, low.plain(item), zero)
        if rep == "f":
            sum_so_far = arithmetic.double(low, ops.FADD, sum_so_far, part)
        elif sum_so_far.op is zero:
            sum_so_far = Value(part.op, part.err, result, low.range(part))
        else:
            sum_so_far = arithmetic.whole(low, ops.ADD, sum_so_far, part, result, span)
    return Value(sum_so_far.op, low.first(value.err, sum_so_far.err), result, sum_so_far.range)


def _flat(low: Lowering, value: MaskedList) -> tuple[list[Op], Interval]:
    """Return (mask, value, mask, value, ...) and the range of the values."""
    parts: list[Op] = []
    bounds: Interval | None = None
    for mask, item in value.items:
        with low.assuming((mask, True)):
            item_double = arithmetic.to_double(low, low.val(item))
            interval = low.range(item_double)
        bounds = interval if bounds is None else ranges.hull(bounds, interval)
        parts += [low.true() if mask is None else mask.op, item_double.op]
    return parts, bounds or Interval(0.0, 0.0)


def _statistic(kind: OpKind) -> Handler:
    def lower(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
        (value,) = args
        if not isinstance(value, MaskedList):
            builtin = BUILTINS["mean_list" if kind is ops.MASKED_MEAN else "stddev_list"]
            return low.call(builtin.function, [low.val(value)], result, span)
        parts, bounds = _flat(low, value)
        interval = ranges.mean(bounds)
        if kind is ops.MASKED_DEVIATION:
            interval = ranges.deviation(bounds, len(value.items))
        two = kind is ops.MASKED_DEVIATION and len(value.items) == 2
        op = low.op(ops.MASKED_DEVIATION_OF_TWO if two else kind, *parts, rep="f")
        return Value(op, value.err, types.DOUBLE, interval)

    return lower


def _weighted_mean(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
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
    return MaskedList(tuple((None, Constant(x, types.INT)) for x in value.value), None, value.type)


def _weighted_masked(low: Lowering, values: MaskedList, weights: MaskedList) -> Value | None:
    """Return the weighted mean where masks agree and ranges exclude overflow and signs."""
    if len(values.items) != len(weights.items):
        return None
    parts: list[Op] = []
    top = total = 0.0
    interval = Interval(0, 0)
    for (mask, item), (other, weight) in zip(values.items, weights.items, strict=True):
        if (mask and mask.op) is not (other and other.op):
            return None
        scalar, by = low.val(item), low.val(weight)
        with low.assuming((mask, True)):
            value_range, weight_range = low.range(scalar), low.range(by)
        if value_range.lo < 0 or weight_range.lo < 0:
            return None
        interval = ranges.hull(interval, value_range)
        top += value_range.hi * weight_range.hi
        total += weight_range.hi
        parts += [low.true() if mask is None else mask.op, scalar.op, by.op]
    if top > ranges.INT_MAX or total > ranges.INT_MAX:
        return None
    error = low.first(values.err, weights.err)
    return Value(low.op(ops.MASKED_WEIGHTED, *parts, rep="i"), error, types.INT, interval)


def _extreme(sign: int) -> Handler:
    def lower(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
        (value,) = args
        if (
            isinstance(value, MaskedList)
            and value.items
            and all(mask is None for mask, _ in value.items)
            and rep_of(element_type(value.type)) in "if"
        ):
            best = low.val(value.items[0][1])
            for _, item in value.items[1:]:
                best = arithmetic.extreme(low, best, low.val(item), sign)
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
