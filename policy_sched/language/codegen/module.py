"""Turns roots of the graph into Python functions: for one row, for some rows, and for all rows.

Theory of operation. The text of the functions is written once, when a policy is compiled, and
compiled to marshalled code. Binding it to a node table runs that code: it defines a factory, whose
arguments are the columns and interners of that table, and calls it. The text holds only generated
names and plain numbers; constants, functions and columns are reached by name.

If parts of the roots do not read the pod, there is one more function, for full passes: it takes
those parts from materialized columns, and comes with the functions that compute them. If loops over
pods were replaced by incremental counts, the function without counts is kept, too. Materialized
columns and counts follow the journal of the node table; over an overlay, which has none, programs
are bound without them.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from policy_sched.cluster.tables import NodeTable
from policy_sched.language import ir
from policy_sched.language.codegen.emitter import FACTORY_ARGUMENTS, INDENT, ConstantPool, Emitter
from policy_sched.language.ir import Builder, CountPass, Op, PodInvariants, row_classes
from policy_sched.language.runtime import (
    Activation,
    ColumnGroup,
    MaterializedColumns,
    Runtime,
    context,
    scalar,
    vector,
)
from policy_sched.language.values import Some, limits
from policy_sched.model import QueuedPod

RowFunction = Callable[..., tuple[Any, ...]]
#: Ops with a test, in which {} stands for the op, and the statement for where it fails.
Guards: TypeAlias = Sequence[tuple[ir.Op, str, str]]
#: Representation and limit of each kept column of a group.
Columns = tuple[tuple[str, float | None], ...]

COSTLY: Final = "vector"
"""The function whose cost is that of a program without materialized columns."""
_WHOLE: Final = "whole"
_PLAIN: Final = "plain"
OVER_ROWS: Final = "pod, ctx, rows, n"
"""The arguments of a function over many rows."""


def compiled(text: str) -> bytes:
    """Return the code of a factory's text, marshalled: it can be pickled as it is."""
    return marshal.dumps(compile(text, "<policy>", "exec"))


_NO_CODE: Final = compiled("")


def _functions(*modules: ModuleType) -> dict[str, object]:
    """Return the public functions that modules define."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    }


_OF_NUMPY: Final = (
    "add",
    "subtract",
    "multiply",
    "absolute",
    "right_shift",
    "floor_divide",
    "true_divide",
    "maximum",
    "fmin",
    "int32",
)
#: What generated functions find in their globals besides their own constants.
DEFINED: Final[dict[str, object]] = {
    **_functions(scalar, vector, context, limits),
    **{name: getattr(np, name) for name in _OF_NUMPY},
    "Activation": Activation,
    "inf": math.inf,
    "Some": Some,
}


class SortProgram(msgspec.Struct, frozen=True):
    """The code of the function that returns a queued pod's sort keys, before a table is known."""

    code: bytes
    slots: ConstantPool

    def bind(self, runtime: Runtime) -> Callable[[QueuedPod], tuple[int, ...]]:
        """Return the function."""
        function: Callable[[QueuedPod], tuple[int, ...]]
        function = bind_factory(self.code, self.slots, runtime)
        return function


class Functions(msgspec.Struct, frozen=True):
    """Compiled functions, bound to a table: each returns a tuple, one element per root.

    ``scalar(pod, ctx, row)`` gives the values of one row, ``vector(pod, ctx, rows, n)`` arrays
    with an element for each of ``n`` rows, or one value for all of them.
    """

    scalar: RowFunction
    vector: RowFunction
    _whole: RowFunction | None = None
    _kept: MaterializedColumns | None = None

    def every_row(self, pod: Any, ctx: Any, n: int) -> tuple[Any, ...]:
        """Return the result of ``vector`` for all ``n`` rows; values of dead rows are undefined.

        Arrays may be materialized columns, which are read-only.
        """
        rows = slice(0, n)
        if self._whole is not None and self._kept is not None:
            arrays = self._kept.arrays()
            if arrays is not None:
                return self._whole(pod, ctx, rows, n, *arrays)
        return self.vector(pod, ctx, rows, n)


class Program(msgspec.Struct, frozen=True):
    """The code of the functions, before a table is known."""

    text: str
    code: bytes
    slots: ConstantPool
    by_row: bool
    """Whether anything differs from node to node."""
    counted: bool = False
    """Whether there is a function without incremental counts."""
    static: Columns = ()
    dynamic: Columns = ()
    full: ir.Cost = ir.NOTHING
    """What a pass over all nodes costs."""
    kept: ir.Cost = ir.NOTHING
    """What it costs where columns are kept; that they are kept up to date not counted."""
    recording: ir.Recording | None = None
    """What it computes, to fuse it with others; None where that is not possible."""

    @property
    def metered(self) -> bool:
        """Whether the function of one row counts its steps."""
        return self.text.partition("def vector(")[0].find("refill()") >= 0

    def bind(self, runtime: Runtime) -> Functions:
        """Return the functions over one table, or over a view of it."""
        scalar, *rest = bind_factory(self.code, self.slots, runtime)
        plain = rest.pop(0) if self.counted else rest[0]
        vector, *rest = rest
        table = runtime.table.table
        if runtime.table is not table:
            return Functions(scalar, plain)
        if not self.static and not self.dynamic:
            return Functions(scalar, vector)
        whole, *rest = rest
        return Functions(
            scalar, vector, whole, materialized(table, self.static, self.dynamic, rest)
        )


def materialized(
    table: NodeTable, static: Columns, dynamic: Columns, functions: Sequence[RowFunction]
) -> MaterializedColumns:
    """Return kept columns, and what computes them: the functions that `Writer.kept` wrote."""
    static_row, static_rows, dynamic_row, dynamic_rows = functions
    return MaterializedColumns(
        table,
        ColumnGroup(static, static_row, static_rows),
        ColumnGroup(dynamic, dynamic_row, dynamic_rows),
        moves=bool(dynamic),
    )


def bind_factory(code: bytes, slots: ConstantPool, runtime: Runtime) -> Any:
    """Return the functions that the factory of some code makes for one table; one by itself."""
    table = runtime.table
    namespace: dict[str, Any] = {**DEFINED, **slots.constants}
    exec(marshal.loads(code), namespace)  # noqa: S102, S302  # our own text: names and numbers only
    given = {
        "rt": runtime,
        "column": table.lookup,
        "find": table.strings.find,
        "code": table.strings.code,
        "texts": table.strings.texts,
        "taint_members": table.taint_sets.members,
        "port_members": table.port_sets.members,
    }
    columns = {name: table.column(key) for key, name in slots.columns.items()}
    # What stays in its own globals would be a cycle, left behind by every reload.
    return namespace.pop("factory")(**given, **columns)


class Writer:
    """Writes functions, one after the other, into the text of their factory.

    ``joint``: a function over rows may compute several roots by one function of a row.
    ``in_place``: see `Emitter`.
    """

    def __init__(self, *, code: bool = True, joint: bool = False, in_place: bool = False) -> None:
        self._in_place = in_place
        self._joint = joint
        self._code = code
        self.slots = ConstantPool()
        self.shapes = ir.Shapes()
        self.costs: dict[str, ir.Cost] = {}
        self._lines: list[str] = []
        self._names: list[str] = []

    def function(  # what a function is made of
        self,
        name: str,
        arguments: str,
        roots: Sequence[ir.Op],
        *,
        rows: bool,
        bound: Mapping[ir.Op, str] | None = None,
        guards: Guards = (),
    ) -> None:
        """Write the function that returns ``roots``.

        ``bound`` are ops that arguments hold; a guard is a test of an op and what is done if it
        fails.
        """
        motion = self._motion(roots, bound or {}, guards, rows=rows)
        self.costs[name] = ir.cost_of(motion)
        if not self._code:
            return
        body, values = self._lines_of(motion, roots, bound or {}, guards)
        body.append(f"return ({''.join(v + ', ' for v in values)})")
        self.add(name, arguments, body)

    def lines(
        self, roots: Sequence[ir.Op], bound: Mapping[ir.Op, str], guards: Guards = (), *, rows: bool
    ) -> tuple[list[str], list[str]]:
        """Return the lines that compute ``roots``, and the texts of these."""
        return self._lines_of(self._motion(roots, bound, guards, rows=rows), roots, bound, guards)

    def _motion(
        self, roots: Sequence[ir.Op], bound: Mapping[ir.Op, str], guards: Guards, *, rows: bool
    ) -> ir.CodeMotion:
        tested = [op for op, _, _ in guards]
        wanted = [*roots, *tested]
        if rows and self._joint and not tested:
            return ir.placed_over_rows(wanted, bound, self.shapes)
        return ir.CodeMotion(wanted, rows, bound, self.shapes)

    def _lines_of(
        self,
        motion: ir.CodeMotion,
        roots: Sequence[ir.Op],
        bound: Mapping[ir.Op, str],
        guards: Guards,
    ) -> tuple[list[str], list[str]]:
        emitter = Emitter(motion, self.slots, bound, in_place=self._in_place and motion.rows)
        for op, test, otherwise in guards:
            emitter.guard(op, test, otherwise)
        values = [emitter.root(op) for op in roots]
        counting = ["left = refill()"] if emitter.steps or emitter.refills else []
        return [*counting, *emitter.lines()], values

    def add(self, name: str, arguments: str, body: Sequence[str]) -> None:
        """Add a function of a body that is written already."""
        self._lines += [f"def {name}({arguments}):", *(INDENT + line for line in body)]
        self._names.append(name)

    def kept(
        self, invariants: PodInvariants, limits: Mapping[ir.Op, float]
    ) -> tuple[Columns, Columns]:
        """Write the functions that compute kept columns; return these, static ones first."""
        both = ("static", invariants.static), ("dynamic", invariants.dynamic)
        for name, ops in both if self._code else ():
            self.function(f"{name}_row", "row", ops, rows=False)
            self.function(f"{name}_rows", "rows, n", ops, rows=True)
        return _columns(invariants.static, limits), _columns(invariants.dynamic, limits)

    def text(self) -> str:
        """Return the text of the factory."""
        given = ", ".join([*FACTORY_ARGUMENTS, *self.slots.columns.values()])
        lines = [*self.slots.helpers, *self._lines, f"return {', '.join(self._names)}"]
        return "\n".join([f"def factory({given}):", *(INDENT + line for line in lines)]) + "\n"

    def program(
        self,
        roots: Sequence[ir.Op],
        static: Columns,
        dynamic: Columns,
        recording: ir.Recording | None = None,
    ) -> Program:
        """Return the program of what was written."""
        text = self.text()
        by_row = any(op.level is ir.Level.NODE for op in roots)
        code = compiled(text) if self._code else _NO_CODE
        full = self.costs[COSTLY]
        kept = self.costs.get(_WHOLE, full)
        counted = _PLAIN in self._names
        return Program(
            text, code, self.slots, by_row, counted, static, dynamic, full, kept, recording
        )


def generate(
    roots: Sequence[ir.Op], build: ir.Builder | None = None, *, code: bool = True
) -> Program:
    """Return the program that computes ``roots``; with a builder, one that keeps columns.

    Without ``code`` it has its costs alone: it cannot be bound.
    """
    writer = Writer(code=code, joint=True)
    recording = None
    if build is not None:
        counted = CountPass(roots, build)
        recording = ir.recorded(roots, counted.roots) if code else None
        parts = ir.ObjectParts(build)
        roots = parts.of(roots)
    if code:
        writer.function("scalar", "pod, ctx, row", roots, rows=False)
    if build is not None and counted.counts_pods:
        if code:
            writer.function(_PLAIN, OVER_ROWS, roots, rows=True)
        roots = parts.of(counted.roots)
    writer.function(COSTLY, OVER_ROWS, roots, rows=True)
    if build is None:
        return writer.program(roots, (), ())
    invariance = ir.PodInvariance()
    rearranged = ir.Reassociation(roots, build, invariance)
    invariants = ir.find_pod_invariants(rearranged.roots, writer.shapes, invariance)
    if invariants == PodInvariants((), ()):
        return writer.program(roots, (), (), recording)
    kept = {op: f"d{op.serial}" for op in (*invariants.static, *invariants.dynamic)}
    within = f"-{ir.POD_LIMIT} < {{}} < {ir.POD_LIMIT}"
    guards = [(op, within, f"return {COSTLY}({OVER_ROWS})") for op in rearranged.guards]
    arguments = ", ".join([OVER_ROWS, *kept.values()])
    writer.function(_WHOLE, arguments, rearranged.roots, rows=True, bound=kept, guards=guards)
    static, dynamic = writer.kept(invariants, rearranged.limits)
    return writer.program(roots, static, dynamic, recording)


def sort_program(keys: Sequence[ir.Op], descending: Sequence[bool]) -> SortProgram:
    """Return the program of sort keys that are ints; less comes first."""
    writer = Writer()
    body, values = writer.lines(keys, {}, rows=False)
    signed = [f"-{v}, " if down else f"{v}, " for v, down in zip(values, descending, strict=True)]
    case = "pod, ctx = queued.info, Activation(queued=queued)"
    writer.add("queue_sort", "queued", [case, *body, f"return ({''.join(signed)})"])
    return SortProgram(compiled(writer.text()), writer.slots)


def _columns(invariants: Sequence[ir.Op], limits: Mapping[ir.Op, float]) -> Columns:
    return tuple([(op.rep[-1], limits.get(op)) for op in invariants])


#: Takes a pod, a context, rows and their number; returns arrays with one element per row, single
#: values, and lists of both. Rows on which all of them are equal are alike.
Marks: TypeAlias = Callable[[Any, object, Any, int], Sequence[Any]]


class ClassProgram(msgspec.Struct, frozen=True):
    """The code that tells rows apart, before a table is known."""

    code: bytes
    slots: ConstantPool

    def bind(self, runtime: Runtime) -> Marks:
        """Return the function over one table, or over a view of it."""
        function = bind_factory(self.code, self.slots, runtime)

        def run(pod: Any, case: object, rows: Any, n: int) -> Sequence[Any]:
            with np.errstate(all="ignore"):
                marks: Sequence[Any] = function(pod, case, rows, n)
            return marks

        return run


def class_program(roots: Sequence[Op], build: Builder) -> ClassProgram | None:
    """Return what tells rows apart on which ``roots`` may differ; None if only the rows do."""
    marks = row_classes(roots, build)
    if marks is None:
        return None
    writer = Writer()
    writer.function("marks", OVER_ROWS, marks, rows=True)
    return ClassProgram(compiled(writer.text()), writer.slots)
