"""Fused programs: the filters of several policies as one function of all rows, and their scores.

Theory of operation. The recorded graphs of the policies are built again by one builder, so that
equal operations are one, and what does not read the pod is kept in one set of materialized columns:
each is computed once for a changed row, whichever policies read it. There are two functions, as
scores are computed for rows that the filters leave. Their values are those of the policies' own
programs; where numbers are too great for that they return None, and the policies run one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from policy_sched.language.codegen.emitter import ConstantPool
from policy_sched.language.codegen.module import (
    OVER_ROWS,
    Columns,
    RowFunction,
    Writer,
    bind_factory,
    compiled,
    materialized,
)
from policy_sched.language.ir import (
    POD_LIMIT,
    Builder,
    CountPass,
    Level,
    Op,
    PodInvariance,
    Reassociation,
    Recording,
    find_pod_invariants,
    ops,
    reached,
    rebuilt,
)
from policy_sched.language.runtime import MaterializedColumns, Runtime
from policy_sched.model import PodInfo

_CONDITIONS: Final = frozenset((ops.AND, ops.OR, ops.NOT))


class FusedFunctions:
    """The functions of a fused program over one table; ``n``: the rows at the last call."""

    __slots__ = ("_filters", "_kept", "_scores", "n")

    def __init__(
        self, filters: RowFunction, scores: RowFunction, kept: MaterializedColumns
    ) -> None:
        self._filters = filters
        self._scores = scores
        self._kept = kept
        self.n = 0

    def filters(self, pod: PodInfo, cycle: object) -> Sequence[object] | None:
        """Return the values of all filters' roots for all ``n`` rows; None if there are none."""
        arrays = self._kept.arrays()
        n = self.n = self._kept.n
        return None if arrays is None else self._filters(pod, cycle, slice(0, n), n, *arrays)

    def scores(self, pod: PodInfo, cycle: object) -> Sequence[object] | None:
        """Return the values of all scores' roots for all ``n`` rows; None if there are none."""
        arrays = self._kept.arrays()
        n = self.n = self._kept.n
        return None if arrays is None else self._scores(pod, cycle, slice(0, n), n, *arrays)


class FusedProgram(msgspec.Struct, frozen=True):
    """The code of the functions, before a table is known."""

    text: str
    code: bytes
    slots: ConstantPool
    static: Columns
    dynamic: Columns
    compares: bool
    """Whether the filters compute nothing that NumPy could warn of."""

    def bind(self, runtime: Runtime) -> FusedFunctions:
        """Return the functions over the node table."""
        filters, scores, *rest = bind_factory(self.code, self.slots, runtime)
        quiet = np.errstate(all="ignore")
        filters, scores = filters if self.compares else quiet(filters), quiet(scores)
        kept = materialized(runtime.table.table, self.static, self.dynamic, rest)
        return FusedFunctions(filters, scores, kept)


def fuse(filters: Sequence[Recording], scores: Sequence[Recording]) -> FusedProgram:
    """Return the program of some filters and scores."""
    build, writer = Builder(), Writer(in_place=True)
    of_filters = [op for one in filters for op in rebuilt(one, build)]
    roots: list[Op] = [*of_filters, *(op for one in scores for op in rebuilt(one, build))]
    roots = list(CountPass(roots, build).roots)
    invariance = PodInvariance()
    rearranged = Reassociation(roots, build, invariance)
    invariants = find_pod_invariants(rearranged.roots, writer.shapes, invariance)
    kept = {op: f"d{op.serial}" for op in (*invariants.static, *invariants.dynamic)}
    compares = all(_compares(op, kept) for op in rearranged.roots[: len(of_filters)])
    within = f"-{POD_LIMIT} < {{}} < {POD_LIMIT}"
    guards = [(op, within, "return None") for op in rearranged.guards]
    arguments = ", ".join([OVER_ROWS, *kept.values()])
    for name, own in (
        ("filters", rearranged.roots[: len(of_filters)]),
        ("scores", rearranged.roots[len(of_filters) :]),
    ):
        needed = reached(own)
        checked = [guard for guard in guards if guard[0] in needed]
        writer.function(name, arguments, own, rows=True, bound=kept, guards=checked)
    static, dynamic = writer.kept(invariants, rearranged.limits)
    text = writer.text()
    return FusedProgram(text, compiled(text), writer.slots, static, dynamic, compares)


def _compares(op: Op, kept: Mapping[Op, str]) -> bool:
    """Return whether an op is a condition on ints, on columns that are kept, and on the pod."""
    if op in kept or op.level is Level.SCALAR:
        return True
    conditions = op.kind in _CONDITIONS
    return op.kind is ops.FITS or (conditions and all(_compares(a, kept) for a in op.args))
