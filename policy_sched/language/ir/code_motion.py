"""Decides where each operation is computed, in which loop, branch or function, and what that costs.

Theory of operation. A function's text is a tree of scopes: the body, the bodies of loops, and the
branches that run only under a condition. Each op belongs to the innermost scope that holds all of
its uses, and moves out of loops that it does not depend on (global code motion). Ops are visited
from consumers to their arguments (descending serial numbers), so all uses of an op are known before
the op. Over rows, an op without an array form becomes the root of a `Region`: a function of one row
or, if it depends on one column of codes only, of one code, called once per distinct code. A region
includes everything that it needs down to the arrays it can start from.

One unit of cost is about a nanosecond per node on a computer of 2024. An operation on arrays has a
price per node (ops.py) and one per call. A region costs a call per row or code, and each of its
steps has a price. Lists of unknown length count as `LENGTHS` elements. Prices are measured;
`policy-sched bench RuleCost` compares estimates with the clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import MIXED, Call, Level, Loop, Op

_ARRAYS = frozenset("bifcek")


@dataclass(eq=False, slots=True)
class Block:
    """A sequence of statements: a function, a loop's body or a branch."""

    parent: Block | None = None
    variables: frozenset[Op] = frozenset()
    lines: list[str | Block] = field(default_factory=list)

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


class Shapes:
    """Which NODE ops have an array form, remembered per op."""

    def __init__(self) -> None:
        self._arrays: dict[Op, bool] = {}
        self._distinct: dict[Op, bool] = {}

    def has_array(self, op: Op) -> bool:
        """Return whether ``op`` can be computed for all rows by NumPy."""
        known = self._arrays.get(op)
        if known is None:
            known = self._arrays[op] = self._find_array(op)
        return known

    def _find_array(self, op: Op) -> bool:
        if op.level is Level.SCALAR:
            return True
        if any(p.level is Level.NODE for p in op.params):
            return False
        if op.kind in (ops.VAL, ops.ERR):
            return op.rep in _ARRAYS
        if isinstance(op.data, Loop):
            if not op.data.kind.over_rows or op.args[0].level is Level.NODE:
                return False
            return all(a.rep in _ARRAYS for a in op.args[1:])
        if not op.kind.vector or op.rep[-1] in "so":
            return False
        return all(a.level is Level.SCALAR or a.rep in _ARRAYS for a in op.args)

    def per_distinct(self, op: Op) -> bool:
        """Return whether ``op`` is best computed once per distinct value of its one column."""
        known = self._distinct.get(op)
        if known is None:
            known = self._distinct[op] = self._find_distinct(op)
        return known

    def _find_distinct(self, op: Op) -> bool:
        if op.level is Level.SCALAR or op.key in (None, MIXED, op) or op.kind in (ops.VAL, ops.ERR):
            return False
        if any(p.level is Level.NODE for p in op.params):
            return False
        if not self.has_array(op):
            return True
        varying = [a for a in op.args if a.level is Level.NODE]
        return any(self.per_distinct(a) or self._pair_needs(a) for a in varying)

    def _pair_needs(self, op: Op) -> bool:
        return op.kind in (ops.VAL, ops.ERR) and self.per_distinct(op.args[0])

    def starts_region(self, op: Op) -> bool:
        """Return whether a region should take ``op`` as an array rather than compute it itself."""
        if op.kind in (ops.VAL, ops.ERR) and not self.has_array(op.args[0]):
            return False
        return op.rep in _ARRAYS and self.has_array(op)

    def is_region(self, op: Op) -> bool:
        """Return whether ``op``, read as an array, is the root of a region."""
        if op.level is Level.SCALAR or op.kind in (ops.VAL, ops.ERR):
            return False
        return not self.has_array(op) or self.per_distinct(op)


@dataclass(eq=False, slots=True)
class Region:
    """The function that computes ``root``, with its inputs that vary by row and those that do not.

    ``row`` is whether it reads columns by the row's number: those that a variable of one of its
    own loops selects.
    """

    root: Op
    by_row: tuple[Op, ...]
    fixed: tuple[Op, ...]
    row: bool


def descending(start: Iterable[Op]) -> Iterator[tuple[Op, list[Op]]]:
    """Walk ops by descending serial; ops appended to the yielded list are visited too."""
    heap: list[tuple[int, int, Op]] = []
    seen: set[Op] = set()
    more = list(start)
    while heap or more:
        for op in more:
            if op not in seen:
                seen.add(op)
                heapq.heappush(heap, (-op.serial, len(seen), op))
        more = []
        if heap:
            yield heapq.heappop(heap)[2], more


def find_region(root: Op, shapes: Shapes) -> Region:
    """Return the region of ``root``."""
    keyed = root.key is not None and root.key is not MIXED
    row = False
    inner: set[int] = set()
    by_row: list[Op] = []
    fixed: list[Op] = []
    for op, more in descending([root]):
        local = any(p.serial in inner for p in op.params)
        if op is not root and not local:
            if op.kind is ops.CONST:
                continue
            if op.level is Level.SCALAR:
                fixed.append(op)
                continue
            if op is root.key or (not keyed and shapes.starts_region(op)):
                by_row.append(op)
                continue
        row = row or op.kind.by_row
        if isinstance(op.data, Loop):
            inner |= {n for n in (op.data.param, op.data.index) if n is not None}
        more.extend(op.args)
    return Region(root, tuple(by_row), tuple(fixed), row)


class CodeMotion:
    """The scope of every op that some roots need, for one function."""

    def __init__(
        self, roots: Iterable[Op], rows: bool, bound: Iterable[Op], shapes: Shapes
    ) -> None:
        self.rows = rows
        self.shapes = shapes
        self.body = Block()
        self.scope: dict[Op, Block] = {}
        self.uses: dict[Op, int] = {}
        self.branches: dict[tuple[Op, int], Block] = {}
        self.regions: dict[Op, Region] = {}
        known = set(bound)
        first = list(roots)
        for op in first:
            self._use(op, self.body)
        for op, more in descending(first):
            if op in known or op.kind in (ops.CONST, ops.PARAM):
                continue
            self.scope[op] = scope = _hoisted(self.scope[op], op)
            more.extend(self._place_arguments(op, scope))

    def _use(self, op: Op, scope: Block, times: int = 1) -> None:
        self.uses[op] = self.uses.get(op, 0) + times
        before = self.scope.get(op)
        self.scope[op] = scope if before is None else _meeting(before, scope)

    def over_rows(self, op: Op) -> bool:
        """Return whether ``op`` is computed as an array here."""
        return self.rows and op.level is Level.NODE

    def _place_arguments(self, op: Op, scope: Block) -> tuple[Op, ...]:
        if self.over_rows(op) and self.shapes.is_region(op):
            region = self.regions[op] = find_region(op, self.shapes)
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
