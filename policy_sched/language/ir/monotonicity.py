"""Monotonicity: whether adding a pod to a node may turn a filter's result from false to true.

Theory of operation. A new pod increases some columns (requested, pods, ports) and decreases one
(free). The direction of every operation follows: a sum increases with its parts, `a <= b` becomes
false as a increases, a conjunction follows its parts. If parts change in different directions, or
the direction of an operation is unknown, the result may change either direction.
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
    """Tell whether a rule's value may become true, or its error vanish, as pods are added."""
    directions = _MonotonicityAnalysis()
    if error is not None and directions.of(error) is not Monotonicity.CONSTANT:
        return True
    return directions.of(value) in (Monotonicity.INCREASING, Monotonicity.UNKNOWN)


def _opposite(direction: Monotonicity) -> Monotonicity:
    return {
        Monotonicity.INCREASING: Monotonicity.DECREASING,
        Monotonicity.DECREASING: Monotonicity.INCREASING,
    }.get(direction, direction)


def _joint(directions: Iterable[Monotonicity]) -> Monotonicity:
    found = {direction for direction in directions if direction is not Monotonicity.CONSTANT}
    if not found:
        return Monotonicity.CONSTANT
    return found.pop() if len(found) == 1 else Monotonicity.UNKNOWN


def _of_family(family: object) -> Monotonicity:
    if family in _GROWING:
        return Monotonicity.INCREASING
    return Monotonicity.DECREASING if family in _SHRINKING else Monotonicity.CONSTANT


class _MonotonicityAnalysis:
    """The direction of each op, computed once."""

    def __init__(self) -> None:
        self._found: dict[Op, Monotonicity] = {}

    def of(self, op: Op) -> Monotonicity:
        """Return the direction of an op."""
        known = self._found.get(op)
        if known is None:
            known = self._found[op] = self._find(op)
        return known

    def _find(self, op: Op) -> Monotonicity:
        if op.kind is ops.FACTS_AT:
            return Monotonicity.UNKNOWN
        if op.kind.trend is Trend.GROWS:
            return Monotonicity.INCREASING
        directions = [self.of(arg) for arg in op.args]
        if op.kind.trend is Trend.COLUMN:
            direction = _of_family(op.data[0] if isinstance(op.data, tuple) else op.data)
            return (
                direction if _joint(directions) is Monotonicity.CONSTANT else Monotonicity.UNKNOWN
            )
        if all(direction is Monotonicity.CONSTANT for direction in directions):
            return Monotonicity.CONSTANT
        if isinstance(op.data, Call) and op.data.function is ports_conflict:
            return _joint(directions)
        if isinstance(op.data, Loop):
            return _of_loop(op.data, directions)
        return _of_trend(op, directions)


def _of_loop(loop: Loop, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of a loop over a list that grows with pods, or whose tests change."""
    source, *rest = directions
    if loop.kind in ("exists", "count"):
        return _joint([source, *rest])
    return _joint([_opposite(source), *rest]) if loop.kind == "all" else Monotonicity.UNKNOWN


def _of_trend(op: Op, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of an operation some of whose arguments change."""
    match op.kind.trend:
        case Trend.SAME:
            return _joint(directions)
        case Trend.OPPOSITE:
            return _opposite(directions[0])
        case Trend.DIFFERENCE:
            return _joint([directions[0], _opposite(directions[1])])
        case Trend.LESS:
            return _joint([_opposite(directions[0]), directions[1]])
        case Trend.SCALED:
            return _scaled(op, directions)
        case Trend.SHARE if directions[1] is Monotonicity.CONSTANT:
            return directions[0]
        case Trend.CHOICE if directions[0] is Monotonicity.CONSTANT:
            return _joint(directions[1:])
    return Monotonicity.UNKNOWN


def _scaled(op: Op, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of a product with a constant, or of a quotient by one."""
    product = op.kind in (ops.MUL, ops.MUL_CHECKED, ops.FMUL)
    for by, direction in (
        (op.args[1], directions[0]),
        *([(op.args[0], directions[1])] if product else []),
    ):
        if by.kind is ops.CONST and isinstance(by.data, int | float) and by.data >= 0:
            return direction
    return Monotonicity.UNKNOWN
