"""Monotonicity: whether adding a pod to a node may turn a filter's result from false to true.

Theory of operation. A pod that comes makes some columns grow (what is requested, pods, ports) and
one shrink (what is free). From there the direction of every operation follows: a sum grows with
its parts, `a <= b` becomes false as a grows, a conjunction goes the way of all its parts. Where
parts go different ways, or an operation has no known way, anything may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from policy_sched.language.ir.graph import Call, Loop, Op
from policy_sched.model import ports_conflict


class Monotonicity(Enum):
    """How a value changes as pods are added to the node; a bool increases by becoming true."""

    CONSTANT = 0
    INCREASING = 1
    DECREASING = -1
    UNKNOWN = 2


_GROWING: Final = frozenset({"requested", "nonZeroRequested", "podCount", "usedPorts"})
_SHRINKING: Final = frozenset({"free"})
#: Operations that go the way of their arguments, all of which count alike.
_TOGETHER: Final = frozenset(
    {"and", "or", "add", "add_checked", "fadd", "min2", "max2", "to_double", "truncate", "to_int"}
    | {"sign", "round", "true_int", "val", "taints", "ports"}
)


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
        if op.kind == "column":
            assert isinstance(op.data, tuple)
            return _of_family(op.data[0])
        if op.kind == "pods_at":
            return Monotonicity.INCREASING
        if op.kind == "facts_at":
            return Monotonicity.UNKNOWN
        ways = [self.of(arg) for arg in op.args]
        if op.kind in ("column_of", "fits"):
            way = _of_family(op.data)
            return way if _joint(ways) is Monotonicity.CONSTANT else Monotonicity.UNKNOWN
        if all(way is Monotonicity.CONSTANT for way in ways):
            return Monotonicity.CONSTANT
        if op.kind in _TOGETHER:
            return _joint(ways)
        if isinstance(op.data, Call) and op.data.function is ports_conflict:
            return _joint(ways)
        if isinstance(op.data, Loop):
            return _of_loop(op.data, ways)
        known = _KNOWN.get(op.kind)
        return Monotonicity.UNKNOWN if known is None else known(op, ways)


def _of_loop(loop: Loop, ways: Sequence[Monotonicity]) -> Monotonicity:
    """Return the way of a loop over a list that pods make longer, or whose tests they change."""
    source, *rest = ways
    if loop.kind in ("exists", "count"):
        return _joint([source, *rest])
    return _joint([_opposite(source), *rest]) if loop.kind == "all" else Monotonicity.UNKNOWN


def _reverse(_op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    return _opposite(ways[0])


def _difference(_op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    return _joint([ways[0], _opposite(ways[1])])


def _less(_op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    return _joint([_opposite(ways[0]), ways[1]])


def _scaled(op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    """Return the way of a product with a constant, or of a quotient by one."""
    for by, way in ((op.args[1], ways[0]), (op.args[0], ways[1])):
        if by.kind == "const" and isinstance(by.data, int | float) and by.data >= 0:
            return way
        if op.kind not in ("mul", "mul_checked", "fmul"):
            break
    return Monotonicity.UNKNOWN


def _share(_op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    return ways[0] if ways[1] is Monotonicity.CONSTANT else Monotonicity.UNKNOWN


def _choice(_op: Op, ways: Sequence[Monotonicity]) -> Monotonicity:
    return _joint(ways[1:]) if ways[0] is Monotonicity.CONSTANT else Monotonicity.UNKNOWN


_KNOWN: Final[dict[str, Callable[[Op, Sequence[Monotonicity]], Monotonicity]]] = {
    **dict.fromkeys(("not", "neg", "fneg"), _reverse),
    **dict.fromkeys(("sub", "sub_checked", "fsub", "gt", "ge"), _difference),
    **dict.fromkeys(("lt", "le"), _less),
    **dict.fromkeys(("mul", "mul_checked", "fmul", "quot", "quot_nn", "fdiv"), _scaled),
    **dict.fromkeys(("percent", "percent_of_column", "percent_of_rest"), _share),
    "where": _choice,
}
