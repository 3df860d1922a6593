"""The estimated cost of a pass over all nodes, computed from the operations.

One unit is about a nanosecond per node on a computer of 2024. An operation on arrays has a price
per node (ops.py) and one per call. An operation without an array form is a Python function of one
row, and each of its steps has a price. Lists of unknown length count as `LENGTHS` elements. Prices
are measured; `policy-sched bench RuleCost` compares estimates with the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policy_sched.language.ir import ops
from policy_sched.language.ir.code_motion import Block, CodeMotion, descending
from policy_sched.language.ir.graph import MIXED, Call, Loop, Op

#: Units of a value looked up by the code of a column, the codes' own values being known.
LOOK_UP: Final = 1.0
#: Units of calling a Python function: for one distinct value, for one row; of a step in it, of a
#: builtin that it calls, and of one that makes a list, an optional or an error.
DISTINCT: Final = 60.0
ROW: Final = 150.0
STEP: Final = 15.0
BUILTIN: Final = 60.0
MAKING: Final = 350.0
#: Nanoseconds of calling one operation, whatever the number of nodes.
PER_CALL: Final = 350.0
#: How many elements a list is taken to have: pods of a node, and any other.
LENGTHS: Final = {ops.PODS_AT: 10.0}
USUAL_LENGTH: Final = 3.0
#: How many different values columns are taken to have, by family; each node has its own name. What
#: depends on one such column alone is computed once for each value.
VALUES: Final = {"annotation": 1_000.0}
USUAL_VALUES: Final = 10.0
_OWN: Final = "name"


@dataclass(frozen=True, slots=True)
class Cost:
    """Units per node, and nanoseconds once per pass."""

    units: float = 0.0
    fixed: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.units + other.units, self.fixed + other.fixed)

    def nanoseconds(self, nodes: int) -> float:
        """Return the estimate for a pass over so many nodes."""
        return self.fixed + self.units * nodes


NOTHING: Final = Cost()


def cost_of(placement: CodeMotion) -> Cost:
    """Return the cost of a function that computes placed operations for all rows."""
    units = fixed = 0.0
    for op, scope in placement.scope.items():
        if op.kind.free:
            continue
        times = _times(scope)
        if placement.over_rows(op):
            one = _of_array(op, placement)
            units += times * one.units
            fixed += times * (one.fixed + PER_CALL)
    return Cost(units, fixed)


def known_steps(roots: Iterable[Op]) -> int:
    """Return the steps of the most expensive loop over constant lists, inner loops included."""
    lengths: dict[int, int] = {}
    most = 0
    for op, more in descending(roots):
        more.extend(op.args)
        if not isinstance(op.data, Loop):
            continue
        source = op.args[0]
        length = (
            len(source.data) if source.kind is ops.CONST and isinstance(source.data, list) else 1
        )
        # What is inside of a loop is older than the loop: its variables are known by then.
        around = math.prod(lengths.get(p.serial, 1) for p in op.params)
        most = max(most, around * length)
        lengths |= {n: length for n in (op.data.param, op.data.index) if n is not None}
    return most


def _times(scope: Block) -> float:
    """Return how often a scope is run: once for each element of the loops around it."""
    times = 1.0
    at: Block | None = scope
    while at is not None:
        if at.variables:
            times *= USUAL_LENGTH
        at = at.parent
    return times


def _of_array(op: Op, placement: CodeMotion) -> Cost:
    region = placement.regions.get(op)
    if region is None:
        times = max(1, len(op.args) // 2) if op.kind.per_argument else 1
        return Cost(op.kind.price * times)
    steps = _steps(op, {*region.by_row, *region.fixed})
    if op.key is None or op.key is MIXED:
        return Cost(ROW + len(region.by_row) * STEP + steps)
    family = op.key.data[0] if isinstance(op.key.data, tuple) else ""
    if family == _OWN:
        return Cost(LOOK_UP + DISTINCT + steps)
    return Cost(LOOK_UP, VALUES.get(family, USUAL_VALUES) * (DISTINCT + steps))


def _steps(root: Op, bound: set[Op]) -> float:
    """Return what one call of a region's function costs, besides the call."""
    lengths: dict[int, float] = {}
    inside: list[Op] = []
    for op, more in descending([root]):
        if op in bound or op.kind.free:
            more.extend(a for a in op.args if op.kind in (ops.VAL, ops.ERR))
            continue
        inside.append(op)
        more.extend(op.args)
        if isinstance(op.data, Loop):
            length = LENGTHS.get(op.args[0].kind, USUAL_LENGTH)
            lengths |= {n: length for n in (op.data.param, op.data.index) if n is not None}
    total = 0.0
    for op in inside:
        times = math.prod(lengths.get(p.serial, 1.0) for p in op.params)
        total += times * _of_step(op)
    return total


def _of_step(op: Op) -> float:
    if not isinstance(op.data, Call):
        return STEP
    return MAKING if op.rep[0] in "to" else BUILTIN
