"""What tells rows apart: values over rows that decide the values of an expression.

Theory of operation. An expression may make lists and texts, which have no array form, of a few
conditions, which have one. From each root the search goes down to the first operations that have
an array form, or to the only column that an operation depends on. Rows on which all of these are
equal have equal roots, because operations are pure. In a loop over a list from outside of the node
they differ from element to element: a loop of kind EACH lists them.
"""

from __future__ import annotations

from collections.abc import Iterable

from policy_sched.language.ir import graph, ops
from policy_sched.language.ir.regions import Shapes


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
        self._known: dict[graph.Op, tuple[graph.Op, ...]] = {}

    def deciding(self, op: graph.Op) -> tuple[graph.Op, ...]:
        """Return the ops over rows that decide ``op``."""
        found = self._known.get(op)
        if found is None:
            found = self._known[op] = tuple(dict.fromkeys(self._search(op)))
        return found

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
        return [one for a in varying for one in self.deciding(a)]

    def _in_loop(self, op: graph.Op, loop: graph.Loop) -> Iterable[graph.Op]:
        source, *parts = op.args
        yield from self.deciding(source)
        own = {loop.param, loop.index}
        for part in parts:
            for one in self.deciding(part):
                if any(p.serial in own for p in one.params):
                    yield self._of_each(one, source, loop)
                else:
                    yield one

    def _of_each(self, op: graph.Op, source: graph.Op, loop: graph.Loop) -> graph.Op:
        """Return the list of an op over rows for all elements of a loop."""
        data = graph.Loop(ops.LoopKind.EACH, loop.param, loop.index, 0, False)
        listed = self._build.op(ops.LOOP, source, op, rep="to", data=data)
        if source.level is graph.Level.NODE or listed.params:
            raise _ByRowError
        return self._build.op(ops.VAL, listed, rep="o")
