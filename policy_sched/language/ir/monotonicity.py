"""Monotonicity: whether adding a pod to a node may turn a filter's result from false to true.

Theory of operation. A pod that comes makes some columns grow (what is requested, pods, ports) and
one shrink (what is free). From there the direction of every operation follows: a sum grows with
its parts, `a <= b` becomes false as a grows, a conjunction goes the way of all its parts. Where
parts go different ways, or an operation has no known way, anything may happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import Call, Loop, Op
from policy_sched.language.ir.ops import Trend
from policy_sched.model import ports_conflict


class Monotonicity(Enum):
    """How a value changes as pods are added to the node; a bool increases by becoming true."""

    CONSTANT = 0
    INCREASING = 1
    DECREASING = -1
    UNKNOWN = 2


_GROWING: Final = frozenset({"requested", "nonZeroRequested", "podCount", "usedPorts"})
_SHRINKING: Final = frozenset({"free"})


def may_become_true(value: Op, error: Op | None) -> bool:
    """Tell whether a rule's value may become true, or its error vanish, as pods come."""
    ways = _MonotonicityAnalysis()
    if error is not None and ways.of(error) is not Monotonicity.CONSTANT:
        return True
    return ways.of(value) in (Monotonicity.INCREASING, Monotonicity.UNKNOWN)


def _opposite(way: Monotonicity) -> Monotonicity:
    return {
        Monotonicity.INCREASING: Monotonicity.DECREASING,
        Monotonicity.DECREASING: Monotonicity.INCREASING,
    }.get(way, way)


def _joint(ways: Iterable[Monotonicity]) -> Monotonicity:
    found = {way for way in ways if way is not Monotonicity.CONSTANT}
    if not found:
        return Monotonicity.CONSTANT
    return found.pop() if len(found) == 1 else Monotonicity.UNKNOWN


def _of_family(family: object) -> Monotonicity:
    if family in _GROWING:
        return Monotonicity.INCREASING
    return Monotonicity.DECREASING if family in _SHRINKING else Monotonicity.CONSTANT


class _MonotonicityAnalysis:
    """The way of each op, worked out once."""

    def __init__(self) -> None:
        self._found: dict[Op, Monotonicity] = {}

    def of(self, op: Op) -> Monotonicity:
        """Return the way of an op."""
        known = self._found.get(op)
        if known is None:
            known = self._found[op] = self._find(op)
        return known

    def _find(self, op: Op) -> Monotonicity:
        if op.kind is ops.FACTS_AT:
            return Monotonicity.UNKNOWN
        if op.kind.trend is Trend.GROWS:
            return Monotonicity.INCREASING
        ways = [self.of(arg) for arg in op.args]
        if op.kind.trend is Trend.COLUMN:
            way = _of_family(op.data[0] if isinstance(op.data, tuple) else op.data)
            return way if _joint(ways) is Monotonicity.CONSTANT else Monotonicity.UNKNOWN
        if all(way is Monotonicity.CONSTANT for way in ways):
            return Monotonicity.CONSTANT
        if isinstance(op.data, Call) and op.data.function is ports_conflict:
            return _joint(ways)
        if isinstance(op.data, Loop):
            return _of_loop(op.data, ways)
        return _of_trend(op, ways)


def _of_loop(loop: Loop, ways: Sequence[Monotonicity]) -> Monotonicity:
    """Return the way of a loop over a list that pods make longer, or whose tests they change."""
    source, *rest = ways
    if loop.kind in ("exists", "count"):
        return _joint([source, *rest])
    return _joint([_opposite(source), *rest]) if loop.kind == "all" else Monotonicity.UNKNOWN


def _of_trend(op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    """Return the way of an operation some of whose arguments change."""
    match op.kind.trend:
        case Trend.SAME:
            return _joint(ways)
        case Trend.OPPOSITE:
            return _opposite(ways[0])
        case Trend.DIFFERENCE:
            return _joint([ways[0], _opposite(ways[1])])
        case Trend.LESS:
            return _joint([_opposite(ways[0]), ways[1]])
        case Trend.SCALED:
            return _scaled(op, ways)
        case Trend.SHARE if ways[1] is Monotonicity.CONSTANT:
            return ways[0]
        case Trend.CHOICE if ways[0] is Monotonicity.CONSTANT:
            return _joint(ways[1:])
    return Monotonicity.UNKNOWN


def _scaled(op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    """Return the way of a product with a constant, or of a quotient by one."""
    product = op.kind in (ops.MUL, ops.MUL_CHECKED, ops.FMUL)
    for by, way in ((op.args[1], ways[0]), *([(op.args[0], ways[1])] if product else [])):
        if by.kind is ops.CONST and isinstance(by.data, int | float) and by.data >= 0:
            return way
    return Monotonicity.UNKNOWN
