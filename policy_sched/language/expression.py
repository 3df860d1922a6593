"""One expression by itself: compiled, bound to a table, evaluated for all rows and for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.cluster import tables
from policy_sched.language.check import CheckedInput
from policy_sched.language.codegen import Functions, Program, generate
from policy_sched.language.ir import Level, Reads, Site, find_reads, known_steps, ops, reached
from policy_sched.language.lower import Lowering, Refusal, Value, identities, make_lowering, rep_of
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import KINDS, MAX_STEPS, Interval, types
from policy_sched.model import PodInfo

#: An error kind's number in the catalogue is this plus its number in `KINDS` (PS601..607).
FIRST_ERROR = 600
#: What belongs to a pod, and may change while the pod does not.
_ELSEWHERE: Final = frozenset({("namespaceObject",), ("queue",), ("podGroup",)})


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression. ``range`` is None where the value is no number.

    ``columns``: the columns of the node table that its value on a row follows from, with what it
    reads of the pod; None if it follows from more.
    """

    program: Program
    sites: tuple[Site, ...]
    range: Interval | None
    can_fail: bool
    reads: Reads
    by_row: bool
    columns: tuple[tuple[str, ...], ...] | None = None

    def bind(self, nodes: tables.NodeView, pods: tables.PodTable | None = None) -> BoundExpression:
        """Return the expression over one table, or over a view of it."""
        runtime = Runtime(nodes, pods)
        return BoundExpression(self, self.program.bind(runtime), nodes)


class BoundExpression(msgspec.Struct, frozen=True):
    """An expression over a table."""

    expression: Expression
    functions: Functions
    table: tables.NodeView

    def vector(
        self, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp] | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return a value and an error (0, or 601..607) per row; a failed value is undefined."""
        n = self.table.n if rows is None else len(rows)
        with np.errstate(all="ignore"):
            if rows is None:
                out = self.functions.every_row(pod, cycle, n)
            else:
                out = self.functions.vector(pod, cycle, rows, n)
        values = per_row(out[0], n, listed=self.expression.by_row)
        errors = per_row(out[1], n) if self.expression.can_fail else [0] * n
        return values, [self._kind(site) for site in errors]

    def scalar(self, pod: PodInfo, cycle: Activation, row: int) -> tuple[Any, int]:
        """Return the value and the error of one row."""
        out = self.functions.scalar(pod, cycle, row)
        return out[0], self._kind(out[1]) if self.expression.can_fail else 0

    def _kind(self, site: int) -> int:
        kind = self.expression.sites[site].kind
        return FIRST_ERROR + kind if kind else 0


def per_row(values: Any, n: int, *, listed: bool = False) -> list[Any]:
    """Return an array, or one value for all rows, as a list; ``listed``: a list has a row each."""
    if isinstance(values, np.ndarray) and values.ndim:
        rows: list[Any] = values.tolist()
        return rows
    if listed and isinstance(values, list):
        return values
    if isinstance(values, (np.ndarray, np.generic)):
        return [values.item()] * n
    return [values] * n


def compile_expression(
    core: ast.Core,
    params: Mapping[str, Any] | None = None,
    params_type: types.RecordType | None = None,
    functions: Mapping[str, ast.UserFunction] | None = None,
    variables: Sequence[tuple[str, ast.Core]] = (),
    inputs: Sequence[CheckedInput] = (),
) -> Expression:
    """Compile one checked expression. Raises Refusal if it cannot be compiled."""
    low = make_lowering(params or {}, params_type or types.RecordType("record"), functions or {})
    if inputs:
        low.globals["inputs"] = identities(inputs)
    for name, body in variables:
        low.globals[f"variables.{name}"] = low.thunk(body, {})
    try:
        value = low.plain(low.lower(core, {}))
    except Refusal as refusal:
        raise refusal.placed_at(core.span) from None
    limit_steps(value, core.span)
    roots = [value.op] if value.err is None else [value.op, value.err]
    is_number = rep_of(core.type) in "if"
    program, reads = generate(roots, low.build), find_reads(roots)
    named = all(isinstance(op.data, tuple) for op in reached(roots) if op.kind.by_row)
    follows = named and reads.scope <= tables.Scope.NODE and not reads.pod & _ELSEWHERE
    return Expression(
        program=program,
        sites=tuple(low.build.sites),
        range=low.range(value) if is_number else None,
        can_fail=value.err is not None,
        reads=reads,
        by_row=value.op.level is Level.NODE,
        columns=tuple(program.slots.columns) if follows else None,
    )


def limit_steps(value: Value, span: Span) -> None:
    """Refuse an expression whose loops over constant lists take too many steps."""
    steps = known_steps([value.op] if value.err is None else [value.op, value.err])
    if steps > MAX_STEPS:
        message = f"the loops of this rule take {steps} steps; the limit is {MAX_STEPS}"
        raise Refusal("PS503", message, span, "shorten the lists, or nest fewer loops")


def constant(low: Lowering, value: Value) -> tuple[Any, str]:
    """Evaluate a value that reads neither pods nor nodes: the value, or the kind of its error."""
    if value.op.kind is ops.CONST and value.err is None:
        return value.op.data, ""
    program = generate([value.op, *([] if value.err is None else [value.err])])
    out = program.bind(Runtime(tables.NodeTable())).scalar(None, None, 0)
    site = low.build.sites[out[1]] if value.err is not None else None
    return out[0], "" if site is None else KINDS[site.kind]
