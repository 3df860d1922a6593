"""Decides where each operation is computed, in which loop, branch or function, and what that costs.

Theory of operation. A function's text is a tree of scopes: the body, the bodies of loops, and the
branches that run only under a condition. Each op belongs to the innermost scope that holds all of
its uses, and moves out of loops that it does not depend on (global code motion). Ops are visited
from consumers to their arguments (descending serial numbers), so all uses of an op are known before
the op. Over rows, an op without an array form becomes the root of a `Region`, see regions.py; where
there are several, one function of a row for all that depends on them may cost less.

One unit of cost is about a nanosecond per node on a computer of 2024. An operation on arrays has a
price per node (ops.py) and one per call. A region costs a call per row or code, and each of its
steps has a price. Lists of unknown length count as `LENGTHS` elements. Prices are measured;
`policy-sched bench RuleCost` compares estimates with the clock.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import MIXED, Call, Level, Loop, Op
from policy_sched.language.ir.regions import Region, Shapes, descending, find_region, joint_region


class Block(msgspec.Struct, eq=False):
    """A sequence of statements: a function, a loop's body or a branch."""

    parent: Block | None = None
    variables: frozenset[Op] = frozenset()
    lines: list[str | Block] = msgspec.field(default_factory=list)

    @property
    def depth(self) -> int:
        """How many scopes enclose this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def in_loop(self) -> bool:
        """Whether this is the body of a loop, or inside of one."""
        at: Block | None = self
        while at is not None:
            if at.variables:
                return True
            at = at.parent
        return False


def _meeting(a: Block, b: Block) -> Block:
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def _hoisted(scope: Block, op: Op) -> Block:
    """Return the scope outside of all loops around ``scope`` that ``op`` does not depend on."""
    best, at = scope, scope
    while at.parent is not None and not at.variables & op.params:
        if at.variables:
            best = at.parent
        at = at.parent
    return best


class CodeMotion:
    """The scope of every op that some roots need, for one function."""

    def __init__(
        self,
        roots: Iterable[Op],
        rows: bool,
        bound: Iterable[Op],
        shapes: Shapes,
        joint: Region | None = None,
    ) -> None:
        self.rows = rows
        self.shapes = shapes
        self.joint = joint
        """What is computed together by one function of a row."""
        self.body = Block()
        self.scope: dict[Op, Block] = {}
        self.uses: dict[Op, int] = {}
        self.branches: dict[tuple[Op, int], Block] = {}
        self.regions: dict[Op, Region] = {}
        skipped = set(bound)
        first = list(roots)
        for op in first:
            self._use(op, self.body)
        for op, more in descending(first):
            if op in skipped or op.kind in (ops.CONST, ops.PARAM):
                continue
            self.scope[op] = scope = _hoisted(self.scope[op], op)
            more.extend(self._place_arguments(op, scope))

    def _use(self, op: Op, scope: Block, times: int = 1) -> None:
        self.uses[op] = self.uses.get(op, 0) + times
        before = self.scope.get(op)
        self.scope[op] = scope if before is None else _meeting(before, scope)

    def is_joint(self, op: Op) -> bool:
        """Return whether ``op`` is computed together with others, row by row."""
        return self.joint is not None and op in self.joint.roots

    def over_rows(self, op: Op) -> bool:
        """Return whether ``op`` is computed as an array here."""
        return self.rows and op.level is Level.NODE

    def _place_arguments(self, op: Op, scope: Block) -> tuple[Op, ...]:
        region = self._region(op)
        if region is not None:
            inputs = (*region.by_row, *region.fixed)
            for used in inputs:
                self._use(used, scope, 2)
            return inputs
        if isinstance(op.data, Loop):
            self._place_loop(op, op.data, scope)
        else:
            lazy = self.is_lazy(op)
            for i, used in enumerate(op.args):
                inside = scope
                if lazy and i:
                    inside = self.branches.setdefault((op, i), Block(scope))
                self._use(used, inside)
        return op.args

    def _region(self, op: Op) -> Region | None:
        """Return the region that computes ``op``; None if there is none."""
        if not self.over_rows(op):
            return None
        if self.is_joint(op):
            return self.joint
        if not self.shapes.is_region(op):
            return None
        region = self.regions[op] = find_region(op, self.shapes)
        return region

    def is_lazy(self, op: Op) -> bool:
        """Return whether the later arguments of ``op`` are branches here."""
        if not op.kind.lazy:
            return False
        return not self.over_rows(op) or op.args[0].level is Level.SCALAR

    def _place_loop(self, op: Op, loop: Loop, scope: Block) -> None:
        self._use(op.args[0], scope)
        numbers = {loop.param, loop.index}
        variables = frozenset(p for a in op.args[1:] for p in a.params if p.serial in numbers)
        body = Block(scope, variables or frozenset({op}))
        self.branches[op, 0] = body
        inside = body
        for i, used in enumerate(op.args[1:]):
            if loop.masked and i == loop.errors + 1:
                inside = self.branches[op, 1] = Block(body) if not self.over_rows(op) else body
            self._use(used, inside)


#: Units of a value looked up by the code of a column, the codes' own values being known.
LOOK_UP: Final = 1.0
#: Units of calling a Python function: for one distinct value, for one row; of a step in it, of a
#: builtin that it calls, and of one that makes a list, an optional or an error.
DISTINCT: Final = 60.0
ROW: Final = 150.0
STEP: Final = 15.0
BUILTIN: Final = 60.0
MAKING: Final = 350.0
_SEVERAL: Final = 2
#: Nanoseconds of calling one operation, whatever the number of nodes.
PER_CALL: Final = 350.0
#: How many elements a list is taken to have: pods of a node, and any other.
LENGTHS: Final = {ops.PODS_AT: 10.0}
USUAL_LENGTH: Final = 3.0
DOMAIN_NODES: Final = 50.0
#: How many different values columns are taken to have, by family; each node has its own name. What
#: depends on one such column alone is computed once for each value.
VALUES: Final = {"annotation": 1_000.0}
USUAL_VALUES: Final = 10.0
_OWN: Final = "name"


class Cost(msgspec.Struct, frozen=True):
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
        if op.kind.free or placement.is_joint(op):
            continue
        times = _times(scope)
        if placement.over_rows(op):
            array_cost = _of_array(op, placement)
            units += times * array_cost.units
            fixed += times * (array_cost.fixed + PER_CALL)
    if placement.joint is not None:
        units += _of_region(placement.joint)
        fixed += PER_CALL
    return Cost(units, fixed)


def placed_over_rows(roots: Sequence[Op], bound: Collection[Op], shapes: Shapes) -> CodeMotion:
    """Return where ops are computed for all rows, in the cheapest way.

    If several regions run for each row whatever the pod, one function of a row may replace them.
    """
    placement = CodeMotion(roots, True, bound, shapes)
    each = [op for op in placement.regions if op.key is None or op.key is MIXED]
    if len(each) < _SEVERAL or any(placement.scope[op] is not placement.body for op in each):
        return placement
    joint = joint_region(roots, bound, shapes)
    if joint is None:
        return placement
    together = CodeMotion(roots, True, bound, shapes, joint)
    return min(placement, together, key=lambda choice: cost_of(choice).units)


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
    if op.key is None or op.key is MIXED:
        return Cost(_of_region(region))
    steps = _steps(region)
    family = op.key.data[0] if isinstance(op.key.data, tuple) else ""
    if family == _OWN:
        return Cost(LOOK_UP + DISTINCT + steps)
    return Cost(LOOK_UP, VALUES.get(family, USUAL_VALUES) * (DISTINCT + steps))


def _of_region(region: Region) -> float:
    """Return what a region's function costs for each row."""
    return ROW + len(region.by_row) * STEP + _steps(region)


def _steps(region: Region) -> float:
    """Return what one call of a region's function costs, besides the call."""
    bound = {*region.by_row, *region.fixed}
    lengths: dict[int, float] = {}
    inside: list[Op] = []
    for op, more in descending(region.roots):
        if op in bound or op.kind.free:
            more.extend(a for a in op.args if op.kind in (ops.VAL, ops.ERR))
            continue
        inside.append(op)
        more.extend(op.args)
        if isinstance(op.data, Loop):
            source = op.args[0]
            of_domain = source.kind is ops.ATTR and source.data == "nodes"
            length = DOMAIN_NODES if of_domain else LENGTHS.get(source.kind, USUAL_LENGTH)
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
