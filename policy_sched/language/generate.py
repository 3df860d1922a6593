"""Turns roots of the graph into Python functions: one for a row, one for all rows.

Theory of operation. The text of both functions is written once, when a policy is compiled, and
compiled to a code object. Binding it to a node table runs that code: it defines a factory, whose
arguments are the columns and interners of that table, and calls it. Only names of ours and plain
numbers stand in the text; constants, functions and columns are reached by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from policy_sched.language import runtime_node, runtime_rows, runtime_scalar
from policy_sched.language.emit import INDENT, Emitter
from policy_sched.language.faults import Some
from policy_sched.language.ir import Level, Op
from policy_sched.language.placement import Placement, Shapes
from policy_sched.language.runtime import Runtime
from policy_sched.language.slots import FACTORY_ARGUMENTS, Slots

RowFunction = Callable[..., tuple[Any, ...]]

_NAMES: Final[dict[str, object]] = {
    **runtime_scalar.NAMES,
    **runtime_rows.NAMES,
    **runtime_node.NAMES,
    "Some": Some,
}


@dataclass(frozen=True, slots=True)
class Functions:
    """Compiled functions, bound to a table: each returns a tuple, one element per root.

    ``scalar(pod, ctx, row)`` gives the values of one row, ``vector(pod, ctx, rows, n)`` arrays
    with an element for each of ``n`` rows, or one value that stands for all of them.
    """

    scalar: RowFunction
    vector: RowFunction


@dataclass(frozen=True, slots=True)
class Program:
    """The code of two functions, before a table is known."""

    text: str
    code: CodeType
    slots: Slots
    by_row: bool
    """Whether anything differs from node to node."""

    def bind(self, runtime: Runtime) -> Functions:
        """Return the functions over one table."""
        table = runtime.table
        namespace: dict[str, Any] = {**_NAMES, **self.slots.constants}
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
        scalar, vector = namespace["factory"](**given, **columns)
        return Functions(scalar, vector)


def generate(roots: Sequence[Op]) -> Program:
    """Return the program that computes ``roots``."""
    slots = Slots()
    shapes = Shapes()
    parts = []
    for name, arguments, rows in (
        ("scalar", "pod, ctx, row", False),
        ("vector", "pod, ctx, rows, n", True),
    ):
        emitter = Emitter(Placement(roots, rows, (), shapes), slots, {})
        values = [emitter.root(op) for op in roots]
        body = [*emitter.lines(), f"return ({''.join(v + ', ' for v in values)})"]
        parts += [f"def {name}({arguments}):", *(INDENT + line for line in body)]
    given = ", ".join([*FACTORY_ARGUMENTS, *slots.columns.values()])
    lines = [f"def factory({given}):"]
    lines += [INDENT + line for line in [*parts, "return scalar, vector"]]
    text = "\n".join(lines) + "\n"
    by_row = any(op.level is Level.NODE for op in roots)
    return Program(text, compile(text, "<policy>", "exec"), slots, by_row)
