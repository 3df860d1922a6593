"""Turns roots of the graph into Python functions: one for a row, one for rows, one for all rows.

Theory of operation. The text of the functions is written once, when a policy is compiled, and
compiled to a code object. Binding it to a node table runs that code: it defines a factory, whose
arguments are the columns and interners of that table, and calls it. Only names of ours and plain
numbers stand in the text; constants, functions and columns are reached by name.

Where parts of the roots read no pod, there is one more function, for full passes: it takes those
parts from kept columns, and comes with the functions that keep them (see kept_columns).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from policy_sched.language.codegen.constant_pool import FACTORY_ARGUMENTS, ConstantPool
from policy_sched.language.codegen.emitter import INDENT, Emitter
from policy_sched.language.ir import (
    NOTHING,
    POD_LIMIT,
    Builder,
    CodeMotion,
    Cost,
    CountPass,
    Level,
    Op,
    PodInvariance,
    PodInvariants,
    Reassociation,
    Shapes,
    cost_of,
    find_pod_invariants,
)
from policy_sched.language.runtime import (
    ColumnGroup,
    MaterializedColumn,
    MaterializedColumns,
    Runtime,
    each,
)
from policy_sched.language.runtime import masked as runtime_wide
from policy_sched.language.runtime import node as runtime_node
from policy_sched.language.runtime import scalar as runtime_scalar
from policy_sched.language.runtime import vector as runtime_rows
from policy_sched.language.values import Some
from policy_sched.language.values import limits as work

RowFunction = Callable[..., tuple[Any, ...]]
#: Representation and limit of each kept column of a group.
Columns = tuple[tuple[str, float | None], ...]

COSTLY: Final = "vector"
"""The function whose cost is that of a program without kept columns."""
_OVER_ROWS: Final = "pod, ctx, rows, n"

_NO_CODE: Final = compile("", "<policy>", "exec")

#: What generated functions find in their globals besides their own constants.
DEFINED: Final[dict[str, object]] = {
    **runtime_scalar.NAMES,
    **runtime_rows.NAMES,
    **runtime_wide.NAMES,
    **runtime_node.NAMES,
    **work.NAMES,
    "Some": Some,
    "each": each,
}


@dataclass(frozen=True, slots=True)
class Functions:
    """Compiled functions, bound to a table: each returns a tuple, one element per root.

    ``scalar(pod, ctx, row)`` gives the values of one row, ``vector(pod, ctx, rows, n)`` arrays
    with an element for each of ``n`` rows, or one value for all of them.
    """

    scalar: RowFunction
    vector: RowFunction
    _whole: RowFunction | None = None
    _kept: MaterializedColumns | None = None

    def every_row(self, pod: Any, ctx: Any, n: int) -> tuple[Any, ...]:
        """Return what ``vector`` does of all ``n`` rows; what it says of dead rows is of no use.

        Arrays may be kept ones, which are read-only.
        """
        rows = slice(0, n)
        if self._whole is not None and self._kept is not None:
            arrays = self._kept.arrays()
            if arrays is not None:
                return self._whole(pod, ctx, rows, n, *arrays)
        return self.vector(pod, ctx, rows, n)


@dataclass(frozen=True, slots=True)
class Program:
    """The code of the functions, before a table is known."""

    text: str
    code: CodeType
    slots: ConstantPool
    by_row: bool
    """Whether anything differs from node to node."""
    static: Columns = ()
    moving: Columns = ()
    full: Cost = NOTHING
    """What a pass over all nodes costs."""
    kept: Cost = NOTHING
    """What it costs where columns are kept; that they are kept up to date not counted."""

    def bind(self, runtime: Runtime) -> Functions:
        """Return the functions over one table."""
        table = runtime.table
        namespace: dict[str, Any] = {**DEFINED, **self.slots.constants}
        exec(self.code, namespace)  # noqa: S102  # our own text: names and numbers only
        given = {
            "rt": runtime,
            "column": table.column,
            "find": table.strings.find,
            "code": table.strings.code,
            "texts": table.strings.texts,
            "taint_members": table.taint_sets.members,
            "port_members": table.port_sets.members,
        }
        columns = {name: table.column(key) for key, name in self.slots.columns.items()}
        # What stays in its own globals would be a cycle, left behind by every reload.
        made = namespace.pop("factory")(**given, **columns)
        if not self.static and not self.moving:
            return Functions(*made)
        scalar, vector, whole, static_row, static_rows, moving_row, moving_rows = made
        static = ColumnGroup(
            [MaterializedColumn(*one) for one in self.static], static_row, static_rows
        )
        moving = ColumnGroup(
            [MaterializedColumn(*one) for one in self.moving], moving_row, moving_rows
        )
        return Functions(scalar, vector, whole, MaterializedColumns(table, static, moving))


class _Writer:
    """Writes the functions of a program, one after the other, into its factory."""

    def __init__(self, *, code: bool) -> None:
        self._code = code
        self.slots = ConstantPool()
        self.shapes = Shapes()
        self.lines: list[str] = []
        self.names: list[str] = []
        self.costs: dict[str, Cost] = {}

    def function(
        self, name: str, arguments: str, roots: Sequence[Op], *, rows: bool, first: str = ""
    ) -> None:
        """Write the function that returns ``roots``, with a line before all others."""
        if not self._code and name != COSTLY:
            return
        placement = CodeMotion(roots, rows, (), self.shapes)
        self.costs[name] = cost_of(placement)
        emitter = Emitter(placement, self.slots, {})
        self._write(name, arguments, emitter, roots, first)
        self.names.append(name)

    def beside(self, name: str, arguments: str, roots: Sequence[Op]) -> None:
        """Write a function of all rows that only other functions call."""
        if not self._code:
            return
        emitter = Emitter(CodeMotion(roots, True, (), self.shapes), self.slots, {})
        self._write(name, arguments, emitter, roots, "")

    def whole(self, roots: Sequence[Op], kept: Sequence[Op], guards: Sequence[Op]) -> None:
        """Write the function that takes ``kept`` as arguments, and hands over if a guard fails."""
        names = {op: f"d{op.serial}" for op in kept}
        placement = CodeMotion([*roots, *guards], True, names, self.shapes)
        self.costs["whole"] = cost_of(placement)
        if not self._code:
            return
        emitter = Emitter(placement, self.slots, names)
        for op in guards:
            test = f"-{POD_LIMIT} < {{}} < {POD_LIMIT}"
            emitter.guard(op, test, "return vector(pod, ctx, rows, n)")
        arguments = ", ".join([_OVER_ROWS, *names.values()])
        self._write("whole", arguments, emitter, roots, "")
        self.names.append("whole")

    def _write(
        self, name: str, arguments: str, emitter: Emitter, roots: Sequence[Op], first: str
    ) -> None:
        if not self._code:
            return
        values = [emitter.root(op) for op in roots]
        body = [*emitter.lines(), f"return ({''.join(v + ', ' for v in values)})"]
        if emitter.steps or emitter.refills:
            body.insert(0, "refill()")
        if first:
            body.insert(0, first)
        self.lines += [f"def {name}({arguments}):", *(INDENT + line for line in body)]

    def program(self, roots: Sequence[Op], static: Columns, moving: Columns) -> Program:
        """Return the program of what was written."""
        given = ", ".join([*FACTORY_ARGUMENTS, *self.slots.columns.values()])
        lines = [*self.lines, f"return {', '.join(self.names)}"]
        text = "\n".join([f"def factory({given}):", *(INDENT + line for line in lines)]) + "\n"
        by_row = any(op.level is Level.NODE for op in roots)
        code = compile(text, "<policy>", "exec") if self._code else _NO_CODE
        full = self.costs[COSTLY]
        kept = self.costs.get("whole", full)
        return Program(text, code, self.slots, by_row, static, moving, full, kept)


def generate(roots: Sequence[Op], build: Builder | None = None, *, code: bool = True) -> Program:
    """Return the program that computes ``roots``; with a builder, one that keeps columns.

    Without ``code`` it says what it costs, and nothing else: it cannot be bound.
    """
    writer = _Writer(code=code)
    writer.function("scalar", "pod, ctx, row", roots, rows=False)
    first = ""
    if build is not None:
        tallied = CountPass(roots, build)
        if tallied.found:
            writer.beside("plain", _OVER_ROWS, roots)
            first = f"if rt.supposing: return plain({_OVER_ROWS})"
            roots = tallied.roots
    writer.function(COSTLY, _OVER_ROWS, roots, rows=True, first=first)
    if build is None:
        return writer.program(roots, (), ())
    standings = PodInvariance()
    rearranged = Reassociation(roots, build, standings)
    standing = find_pod_invariants(rearranged.roots, writer.shapes, standings)
    if standing == PodInvariants((), ()):
        return writer.program(roots, (), ())
    kept = (*standing.static, *standing.moving)
    writer.whole(rearranged.roots, kept, list(rearranged.guards))
    for name, ops in (("static", standing.static), ("moving", standing.moving)):
        writer.function(f"{name}_row", "row", ops, rows=False)
        writer.function(f"{name}_rows", "rows, n", ops, rows=True)
    limits = rearranged.limits
    columns = [
        tuple((op.rep[-1], limits.get(op)) for op in ops)
        for ops in (standing.static, standing.moving)
    ]
    return writer.program(roots, *columns)
