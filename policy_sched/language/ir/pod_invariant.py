"""Finds pod-invariant operations: they read node columns only, so their values can be materialized.

A standing operation is a function of one row of the node table and of constants. One that reads
static columns only stays as it is until a node changes; another changes on a row whenever a pod
comes to it or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policy_sched.cluster.tables import NODE_COLUMNS, Kind
from policy_sched.language.ir import ops
from policy_sched.language.ir.code_motion import Shapes, find_region
from policy_sched.language.ir.graph import Level, Op

_KEPT = frozenset("bife")


@dataclass(frozen=True, slots=True)
class PodInvariants:
    """What a function of all rows takes from kept columns: static ones, and moving ones."""

    static: tuple[Op, ...]
    moving: tuple[Op, ...]


class PodInvariance:
    """Which ops are standing, remembered per op."""

    def __init__(self) -> None:
        self._found: dict[Op, bool] = {}
        self._moves: dict[Op, bool] = {}

    def holds(self, op: Op) -> bool:
        """Tell whether ``op`` is standing (a constant is, too)."""
        known = self._found.get(op)
        if known is None:
            known = self._found[op] = self._find(op)
        return known

    def _find(self, op: Op) -> bool:
        return op.kind.pod_invariant and all(self.holds(a) for a in op.args)

    def kept(self, op: Op) -> bool:
        """Tell whether the values of ``op`` can be kept in an array, and are worth it."""
        return (
            op.level is Level.NODE
            and op.kind is not ops.COLUMN
            and op.rep in _KEPT
            and not op.params
            and self.holds(op)
        )

    def moves(self, op: Op) -> bool:
        """Tell whether a standing ``op`` changes with the pods on a node."""
        known = self._moves.get(op)
        if known is None:
            known = self._moves[op] = _reads_dynamic(op) or any(self.moves(a) for a in op.args)
        return known


def _reads_dynamic(op: Op) -> bool:
    if not op.kind.columns:
        return False
    family = op.data[0] if isinstance(op.data, tuple) else op.data
    return NODE_COLUMNS[str(family)].kind is Kind.DYNAMIC


def find_pod_invariants(
    roots: Iterable[Op], shapes: Shapes, standings: PodInvariance
) -> PodInvariants:
    """Return the largest standing ops that a function of all rows that computes ``roots`` needs."""
    todo, seen, found = list(roots), set[Op](), list[Op]()
    while todo:
        op = todo.pop()
        if op in seen or op.level is Level.SCALAR:
            continue
        seen.add(op)
        if standings.kept(op):
            found.append(op)
            continue
        args: Sequence[Op] = op.args
        if shapes.is_region(op):
            args = find_region(op, shapes).by_row
        todo.extend(args)
    found.sort(key=lambda op: op.serial)
    static = tuple(op for op in found if not standings.moves(op))
    return PodInvariants(static, tuple(op for op in found if standings.moves(op)))
