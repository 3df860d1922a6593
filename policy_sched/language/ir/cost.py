"""What a pass over all nodes costs, worked out from the operations before any node is there.

One unit is about a nanosecond per node on a computer of 2024. An operation on an array has a
price per node and one per call; what has no array form is a Python function of one row, whose
steps have a price each. Lists whose length is not known are taken to have `LENGTHS` elements.
The prices are measured; `policy-sched bench RuleCost` compares estimates with the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policy_sched.language.ir.code_motion import Block, CodeMotion, descending
from policy_sched.language.ir.graph import MIXED, Call, Loop, Op

#: Units of an operation on arrays; what is not here has the price of one pass, `ELEMENTWISE`.
PRICES: Final = {
    "row": 1.0,
    "column": 0.0,
    "column_of": 0.0,
    "score": 0.0,
    "tally_rows": 0.2,
    "tally_domain": 2.0,
    "fits": 0.6,
    "affinity": 0.6,
    "preference": 0.3,
    "where": 1.0,
    "error_if": 0.7,
    "first_error": 1.0,
    "add_checked": 2.0,
    "sub_checked": 2.0,
    "mul_checked": 5.0,
    "quot_nn": 1.5,
    "quot": 5.0,
    "rem": 5.0,
    "percent": 4.0,
    "percent_of_column": 2.5,
    "percent_of_rest": 2.5,
    "divisor": 0.7,
    "share": 1.5,
    "share_of_rest": 1.5,
    "table": 1.0,
    "sign": 1.0,
    "to_int": 3.0,
    "round": 1.5,
    "wide_mean": 1.0,
    "wide_deviation": 1.5,
    "wide_weighted": 2.5,
    "wide_weighted_doubles": 1.0,
}
ELEMENTWISE: Final = 0.25
#: Of operations over several arrays the price is that of each of them.
_WIDE: Final = frozenset({"wide_mean", "wide_deviation", "wide_weighted", "wide_count"})
#: Units of a value looked up by the code of a column, the codes' own values being known.
LOOK_UP: Final = 1.0
#: Units of calling a Python function: for one distinct value, for one row; of a step in it, of a
#: kernel that it calls, and of one that makes a list, an optional or an error.
DISTINCT: Final = 60.0
ROW: Final = 150.0
STEP: Final = 15.0
KERNEL: Final = 60.0
MAKING: Final = 350.0
#: Nanoseconds of calling one operation, whatever the number of nodes.
PER_CALL: Final = 350.0
#: How many elements a list is taken to have: pods of a node, and any other.
LENGTHS: Final = {"pods_at": 10.0}
USUAL_LENGTH: Final = 3.0
#: How many different values columns are taken to have, by family; each node has its own name. What
#: depends on one such column alone is computed once for each value.
VALUES: Final = {"annotation": 1_000.0}
USUAL_VALUES: Final = 10.0
_OWN: Final = "name"
#: Ops that cost nothing by themselves.
_FREE: Final = frozenset({"const", "param", "val", "err", "pod", "ctx", "cluster"})


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
    """Return what a function costs that computes placed operations for all rows."""
    units = fixed = 0.0
    for op, scope in placement.scope.items():
        if op.kind in _FREE:
            continue
        times = _times(scope)
        if placement.over_rows(op):
            one = _of_array(op, placement)
            units += times * one.units
            fixed += times * (one.fixed + PER_CALL)
    return Cost(units, fixed)


def known_steps(roots: Iterable[Op]) -> int:
    """Return the steps that the dearest loop over constant lists takes, loops inside included."""
    lengths: dict[int, int] = {}
    most = 0
    for op, more in descending(roots):
        more.extend(op.args)
        if not isinstance(op.data, Loop):
            continue
        source = op.args[0]
        length = len(source.data) if source.kind == "const" and isinstance(source.data, list) else 1
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
        price = PRICES.get(op.kind, ELEMENTWISE)
        return Cost(price * max(1, len(op.args) // 2) if op.kind in _WIDE else price)
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
    ops = []
    for op, more in descending([root]):
        if op in bound or op.kind in _FREE:
            more.extend(a for a in op.args if op.kind in ("val", "err"))
            continue
        ops.append(op)
        more.extend(op.args)
        if isinstance(op.data, Loop):
            length = LENGTHS.get(op.args[0].kind, USUAL_LENGTH)
            lengths |= {n: length for n in (op.data.param, op.data.index) if n is not None}
    total = 0.0
    for op in ops:
        times = math.prod(lengths.get(p.serial, 1.0) for p in op.params)
        total += times * _of_step(op)
    return total


def _of_step(op: Op) -> float:
    if not isinstance(op.data, Call):
        return STEP
    return MAKING if op.rep[0] in "to" else KERNEL
