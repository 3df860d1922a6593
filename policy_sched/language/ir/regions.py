"""Regions: what is computed by a function of one row, as it has no array form.

Theory of operation. Over rows, an op without an array form becomes the root of a `Region`: a
function of one row or, if it depends on one column of codes only, of one code, called once per
distinct code. A region includes everything that it needs down to the arrays it can start from. A
joint region has several roots: all results that depend on such ops.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from policy_sched.language.ir import graph, ops
from policy_sched.language.ir.graph import MIXED, Level, Loop, Op

_ARRAYS = frozenset("bifcek")


class Shapes:
    """Which NODE ops have an array form, remembered per op."""

    def __init__(self) -> None:
        self._arrays: dict[Op, bool] = {}
        self._distinct: dict[Op, bool] = {}

    def has_array(self, op: Op) -> bool:
        """Return whether ``op`` can be computed for all rows by NumPy."""
        arrays = self._arrays.get(op)
        if arrays is None:
            arrays = self._arrays[op] = self._find_array(op)
        return arrays

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
        distinct = self._distinct.get(op)
        if distinct is None:
            distinct = self._distinct[op] = self._find_distinct(op)
        return distinct

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


class Region(msgspec.Struct, eq=False):
    """The function that computes ``roots``, with its inputs that vary by row and those that do not.

    ``row`` is whether it reads columns by the row's number: those that a variable of one of its
    own loops selects.
    """

    roots: tuple[Op, ...]
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

    def is_input(op: Op) -> bool:
        return op is root.key or (not keyed and shapes.starts_region(op))

    return _region((root,), is_input)


def joint_region(roots: Iterable[Op], bound: Collection[Op], shapes: Shapes) -> Region | None:
    """Return the region of all roots that depend on ops without an array form; None without any.

    ``bound`` are ops whose arrays are there.
    """
    row_needs: dict[Op, bool] = {}

    def needs_row(op: Op) -> bool:
        """Return whether an op, or one that it depends on, is computed row by row."""
        if op.level is Level.SCALAR or op in bound:
            return False
        needing = row_needs.get(op)
        if needing is None:
            own = op.key in (None, MIXED) and not shapes.has_array(op)
            needing = row_needs[op] = own or any(map(needs_row, op.args))
        return needing

    needing = tuple(op for op in dict.fromkeys(roots) if needs_row(op))
    if not needing or any(op.rep[0] == "t" for op in needing):
        return None
    return _region(needing, lambda op: op in bound or (op.rep in _ARRAYS and not needs_row(op)))


def _region(roots: tuple[Op, ...], is_input: Callable[[Op], bool]) -> Region:
    row = False
    inner: set[int] = set()
    by_row: list[Op] = []
    fixed: list[Op] = []
    for op, more in descending(roots):
        local = any(p.serial in inner for p in op.params)
        if op not in roots and not local:
            if op.kind is ops.CONST:
                continue
            if op.level is Level.SCALAR:
                fixed.append(op)
                continue
            if is_input(op):
                by_row.append(op)
                continue
        row = row or op.kind.by_row
        if isinstance(op.data, Loop):
            inner |= {n for n in (op.data.param, op.data.index) if n is not None}
        more.extend(op.args)
    return Region(roots, tuple(by_row), tuple(fixed), row)


def row_classes(roots: Iterable[graph.Op], build: graph.Builder) -> tuple[graph.Op, ...] | None:
    """Return ops over rows that decide ``roots``; None if something else decides, too."""
    search = _Search(build)
    try:
        return tuple(dict.fromkeys(op for root in roots for op in search.deciding(root)))
    except _ByRowError:
        return None


class _ByRowError(Exception):
    """An operation without an array form reads the row itself."""


class _Search:
    def __init__(self, build: graph.Builder) -> None:
        self._build = build
        self._shapes = Shapes()
        self._kept: dict[graph.Op, tuple[graph.Op, ...]] = {}

    def deciding(self, op: graph.Op) -> tuple[graph.Op, ...]:
        """Return the ops over rows that decide ``op``."""
        decisive = self._kept.get(op)
        if decisive is None:
            decisive = self._kept[op] = tuple(dict.fromkeys(self._search(op)))
        return decisive

    def _search(self, op: graph.Op) -> Iterable[graph.Op]:
        if op.level is graph.Level.SCALAR or op.kind is ops.PARAM:
            return ()
        varying = [a for a in op.args if a.level is graph.Level.NODE]
        if op.kind is not ops.ROW and self._shapes.starts_region(op):
            if len(varying) == 1 and varying[0].rep == "b" and not op.kind.by_row:
                return self.deciding(varying[0])  # which has no more than two values
            if not op.params:
                return (op,)
        if op.key is not None and op.key is not graph.MIXED:
            return (op.key,)
        if op.kind is not ops.ROW and self._shapes.starts_region(op):
            return (op,)
        if op.kind.by_row:
            raise _ByRowError
        if isinstance(op.data, graph.Loop):
            return self._in_loop(op, op.data)
        return [decisive for a in varying for decisive in self.deciding(a)]

    def _in_loop(self, op: graph.Op, loop: graph.Loop) -> Iterable[graph.Op]:
        source, *parts = op.args
        yield from self.deciding(source)
        own = {loop.param, loop.index}
        for part in parts:
            for decisive in self.deciding(part):
                if any(p.serial in own for p in decisive.params):
                    yield self._of_each(decisive, source, loop)
                else:
                    yield decisive

    def _of_each(self, op: graph.Op, source: graph.Op, loop: graph.Loop) -> graph.Op:
        """Return the list of an op over rows for all elements of a loop."""
        data = graph.Loop(ops.LoopKind.EACH, loop.param, loop.index, 0, False)
        listed = self._build.op(ops.LOOP, source, op, rep="to", data=data)
        if source.level is graph.Level.NODE or listed.params:
            raise _ByRowError
        return self._build.op(ops.VAL, listed, rep="o")
