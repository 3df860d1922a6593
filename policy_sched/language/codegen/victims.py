"""Compiles an expression over victims for many pods or nodes at once, where that can be done.

Theory of operation. A candidate node has a column of victims. So what reads ``victim``, or loops
over ``victims``, has a value per line and column, what reads the node one per column, and the rest
is the same for all. `_VictimAxis` rewrites the graph of an expression accordingly: a victim becomes
rows of the pod table (`PodRows`), its fields become columns of that table, and a loop over
``victims`` becomes a reduction. The rewritten graph goes through the ordinary vector emitter. An
expression with another operation over victims is not rewritten; it is computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import POD_TEXTS, PodRows
from policy_sched.language import ir, stdlib
from policy_sched.language.codegen.emitter import ConstantPool
from policy_sched.language.codegen.module import Writer, bind_factory, compiled
from policy_sched.language.ir import ops
from policy_sched.language.runtime import Runtime, TextCall, in_int64
from policy_sched.language.values import snake

Rows: TypeAlias = npt.NDArray[np.intp]

#: What of the context differs from victim to victim or from node to node.
_VARYING: Final = frozenset({"victim", "victims", "pdb_violations"})
#: Attributes of a pod that are columns of the pod table, by attribute.
_COLUMNS: Final = {
    snake("Pod", name): name
    for name in (
        *POD_TEXTS,
        *("priority", "creationTime", "startTime", "terminating", "hostNetwork"),
    )
}
#: Maps of a pod to the family of columns of their entries.
_FAMILIES: Final = {
    "labels": "label",
    "annotations": "annotation",
    "requests": "request",
    "limits": "limit",
    "non_zero_requests": "nonZeroRequest",
}
_EXTREMES: Final = {
    stdlib.BUILTINS["max_list"].function: ops.GREATEST_VICTIM,
    stdlib.BUILTINS["min_list"].function: ops.LEAST_VICTIM,
}
#: Builtins of times that are sums or differences.
_TIMES: Final = {
    stdlib.BUILTINS[f"{name}_{a}_{b}"].function: kind
    for name, kind, a, b in (
        ("sub", ops.SUB_CHECKED, "timestamp", "timestamp"),
        ("sub", ops.SUB_CHECKED, "timestamp", "duration"),
        ("sub", ops.SUB_CHECKED, "duration", "duration"),
        ("add", ops.ADD_CHECKED, "timestamp", "duration"),
        ("add", ops.ADD_CHECKED, "duration", "timestamp"),
        ("add", ops.ADD_CHECKED, "duration", "duration"),
    )
}
_TEXTS: Final = frozenset({"labels", "annotations"})


class VictimScope(msgspec.Struct, frozen=True):
    """What an expression is computed for.

    ``victims``: of any shape for an expression about one victim, of shape (depth, m) for one about
    m nodes. ``nodes``: rows of the node table, of the victims' shape or (m,). ``violations``:
    int64, shape (m,).
    """

    victims: PodRows
    nodes: Rows
    violations: npt.NDArray[np.int64] | None = None


#: Takes a pod, a context and a scope. Returns values and errors: arrays, or one for all; None where
#: there can be no error. A place without a victim has any value. Where an error comes out, which
#: one it is has to be computed one by one.
VictimFunction: TypeAlias = Callable[[Any, object, VictimScope], tuple[Any, Any]]


class VictimProgram(msgspec.Struct, frozen=True):
    """The code of an expression over victims, before a cluster is known."""

    code: bytes
    slots: ConstantPool
    rep: str
    """How values are held; of texts (s) an array has the codes."""
    reads_nodes: bool
    """Whether a column of the node table is read."""

    def bind(self, runtime: Runtime) -> VictimFunction:
        """Return the function over one cluster's tables."""
        function = bind_factory(self.code, self.slots, runtime)

        def run(pod: Any, case: object, scope: VictimScope) -> tuple[Any, Any]:
            with np.errstate(all="ignore"):
                victims = function(pod, case, scope.victims, scope.nodes, scope.violations)
            return victims if len(victims) == 2 else (victims[0], None)

        return run


def over_victims(value: ir.Op, error: ir.Op | None, build: ir.Builder) -> VictimProgram | None:
    """Return the program of a value and its error; None if they are computed one by one."""
    roots = [value] if error is None else [value, error]
    if value.rep not in "bifs":
        return None
    try:
        axis = _VictimAxis(roots, build)
    except _NotRewrittenError:
        return None
    writer = Writer()
    arguments = "pod, ctx, victims, nodes, violations"
    writer.function("over_victims", arguments, axis.roots, rows=True, guards=axis.guards)
    return VictimProgram(compiled(writer.text()), writer.slots, value.rep, axis.reads_nodes)


class _NotRewrittenError(Exception):
    """An operation over victims has no form over arrays."""


class _VictimAxis:
    """``roots`` over arrays of victims. Raises `_NotRewrittenError`.

    ``guards`` are ints that must be within int64 to meet an array.
    """

    def __init__(self, roots: list[ir.Op], build: ir.Builder) -> None:
        self._build = build
        self._victims = build.op(ops.VICTIMS, rep="i", level=ir.Level.NODE)
        self._there = build.op(ops.VICTIM_THERE, rep="b", level=ir.Level.NODE)
        self._new: dict[ir.Op, ir.Op] = {}
        self._loops: dict[ir.Op, tuple[ir.Op | None, ir.Op]] = {}
        self._guards: dict[ir.Op, None] = {}
        self.reads_nodes = False
        ordered = sorted(ir.reached(roots), key=lambda op: op.serial)
        self._params = {
            op.data.param
            for op in ordered
            if isinstance(op.data, ir.Loop) and _is_context(op.args[0], "victims")
        }
        self._varying: set[ir.Op] = set()
        for op in ordered:
            if self._varies(op):
                self._varying.add(op)
                self._rewrite(op)
        self.roots = [self._new[op] if op in self._varying else self._fixed(op) for op in roots]
        self.guards = [(op, "in_int64({})", "return 0, True") for op in self._guards]

    def _varies(self, op: ir.Op) -> bool:
        if op.kind is ops.OF_CTX and op.data in _VARYING:
            return True
        if op.kind is ops.PARAM and op.serial in self._params:
            return True
        return op.level is ir.Level.NODE or not self._varying.isdisjoint(op.args)

    # Arguments.

    def _arg(self, op: ir.Op) -> ir.Op:
        """Return an argument as it meets arrays: texts as codes."""
        if op in self._varying:
            if op not in self._new:
                raise _NotRewrittenError
            return self._new[op]
        return self._op(ops.CODE, op, rep="c") if op.rep == "s" else self._fixed(op)

    def _fixed(self, op: ir.Op) -> ir.Op:
        if op.rep == "i" and op.kind is not ops.CONST:
            self._guards[op] = None
        if op.rep in "ok" or not in_int64(op.data if op.kind is ops.CONST else 0):
            raise _NotRewrittenError
        return op

    def _op(self, kind: ir.OpKind, *args: ir.Op, rep: str, data: Any = None) -> ir.Op:
        return self._build.op(kind, *args, rep=rep, data=data)

    def _leaf(self, kind: ir.OpKind, rep: str, data: Any = None) -> ir.Op:
        return self._build.op(kind, rep=rep, data=data, level=ir.Level.NODE)

    def _both(self, *parts: ir.Op) -> ir.Op:
        total = parts[0]
        for part in parts[1:]:
            total = self._op(ops.AND, total, part, rep="b")
        return total

    # Operations.

    def _rewrite(self, op: ir.Op) -> None:
        """Find the form of an operation over arrays, if something else than a builtin takes it."""
        if isinstance(op.data, ir.Loop):
            self._loops[op] = self._reduction(op, op.data)
            return
        rewritten = self._call(op, op.data) if isinstance(op.data, ir.Call) else self._form(op)
        if rewritten is not None:
            self._new[op] = rewritten

    def _form(self, op: ir.Op) -> ir.Op | None:
        rep = "c" if op.rep == "s" else op.rep
        match op.kind:
            case ops.OF_CTX if op.data == "pdb_violations":
                return self._leaf(ops.VIOLATIONS, "i")
            case ops.OF_CTX | ops.PARAM:
                return self._victims
            case ops.VAL | ops.ERR if op.args[0] in self._loops:
                return self._loops[op.args[0]][op.kind is ops.ERR]
            case ops.ATTR if op.data in _COLUMNS and self._is_pod(op.args[0]):
                return self._op(ops.POD_COLUMN, self._victims, rep=rep, data=_COLUMNS[op.data])
            case ops.ATTR:
                return None  # a map, of which builtins take entries
            case ops.COLUMN if op.rep != "k":
                self.reads_nodes = True
                return self._leaf(ops.COLUMN_AT_NODES, rep, op.data)
            case ops.COLUMN_OF if op.rep != "k" and op.args[0] not in self._varying:
                self.reads_nodes = True
                kind, level = ops.COLUMN_OF_AT_NODES, ir.Level.NODE
                return self._build.op(kind, *op.args, rep=rep, data=op.data, level=level)
            case ops.TEXT:
                return self._text(self._arg(op.args[0]))
            case ops.CODE | ops.FIND:
                return self._arg(op.args[0])
        if op.kind.elementwise or op.kind in (ops.VAL, ops.ERR):
            return self._op(op.kind, *map(self._arg, op.args), rep=rep, data=op.data)
        raise _NotRewrittenError

    def _is_pod(self, op: ir.Op) -> bool:
        return op.kind is ops.PARAM or _is_context(op, "victim")

    def _text(self, code: ir.Op) -> ir.Op:
        """Return the code of a text whose column has 0 where there is none."""
        empty = self._op(ops.CODE, self._build.const("", "s"), rep="c")
        missing = self._op(ops.EQ, code, self._build.const(0, "i"), rep="b")
        return self._op(ops.WHERE, missing, empty, code, rep="c")

    # Builtins.

    def _call(self, op: ir.Op, call: ir.Call) -> ir.Op:
        args = op.args[call.guards :]
        if call.function in _EXTREMES:
            return self._extreme(op, call, args)
        if call.function in _TIMES:
            return self._op(_TIMES[call.function], *map(self._arg, args), rep="ti", data=1)
        if call.guards or op.rep[0] == "t":
            raise _NotRewrittenError
        if call.function in (stdlib.has_key, stdlib.value_at, stdlib.amount):
            return self._entry(op, call)
        if call.function is len and _is_context(args[0], "victims"):
            return self._count(self._there)
        places = [i for i, arg in enumerate(args) if arg in self._varying]
        if len(places) != 1 or args[places[0]].rep != "s" or op.rep not in "bis":
            raise _NotRewrittenError
        data = TextCall(call.function, places[0], op.rep)
        given = [self._arg(arg) if arg in self._varying else arg for arg in args]
        return self._op(ops.EACH_TEXT, *given, rep="c" if op.rep == "s" else op.rep, data=data)

    def _entry(self, op: ir.Op, call: ir.Call) -> ir.Op:
        """Look an entry up in a map of the victims'."""
        whole, key, *rest = op.args
        of_pod = whole.kind is ops.ATTR and whole.data in _FAMILIES and self._is_pod(whole.args[0])
        if not of_pod or not self._varying.isdisjoint((key, *rest)):
            raise _NotRewrittenError
        if (call.function is stdlib.amount) == (whole.data in _TEXTS):
            raise _NotRewrittenError
        rep = "i" if call.function is stdlib.amount else "c"
        family = _FAMILIES[str(whole.data)]
        entry = self._op(ops.POD_ENTRY, self._victims, key, rep=rep, data=family)
        none = self._build.const(0, "i")
        if call.function is stdlib.has_key:
            return self._op(ops.NE, entry, none, rep="b")
        if call.function is stdlib.value_at:
            missing = self._op(ops.EQ, entry, none, rep="b")
            return self._op(ops.WHERE, missing, self._arg(rest[0]), entry, rep=rep)
        return entry

    def _extreme(self, op: ir.Op, call: ir.Call, args: tuple[ir.Op, ...]) -> ir.Op:
        """Return the greatest or least of a list with an element per victim, and its error."""
        listed = args[0].args[0] if args[0].kind is ops.VAL else args[0]
        if (
            not isinstance(listed.data, ir.Loop)
            or listed.data.kind is not ir.LoopKind.LIST
            or op.rep != "ti"
        ):
            raise _NotRewrittenError
        held, (value,) = self._held(listed, listed.data)
        return self._op(_EXTREMES[call.function], held, value, rep="ti", data=1)

    # Loops.

    def _held(self, op: ir.Op, loop: ir.Loop) -> tuple[ir.Op, list[ir.Op]]:
        """Return which victims a loop goes over, and its roots besides the mask."""
        rest = [self._arg(arg) for arg in op.args[1 + loop.errors :]]
        return (self._both(self._there, rest.pop(0)) if loop.masked else self._there), rest

    def _reduction(self, op: ir.Op, loop: ir.Loop) -> tuple[ir.Op | None, ir.Op]:
        """Return the value and the error of a loop over the victims; a list has no value."""
        if not _is_context(op.args[0], "victims") or loop.index is not None or op.params:
            raise _NotRewrittenError
        held, rest = self._held(op, loop)
        error = self._build.const(0, "e")
        match loop.kind:
            case ir.LoopKind.COUNT:
                value: ir.Op | None = self._count(held)
            case ir.LoopKind.SUM_INT:
                terms = self._op(ops.WHERE, held, rest[0], self._build.const(0, "i"), rep="i")
                value = self._op(ops.SUM_OF_VICTIMS, terms, rep="i")
                if loop.site:
                    error = self._op(ops.UNSURE_SUM, terms, rep="e")
            case ir.LoopKind.ALL | ir.LoopKind.EXISTS:
                value, error = self._quantified(loop.kind is ir.LoopKind.ALL, held, rest)
            case ir.LoopKind.LIST if rest[0].rep == "i":
                value = None
            case _:
                raise _NotRewrittenError
        for stage in op.args[1 : 1 + loop.errors]:
            failed = self._op(ops.FAILED, self._arg(stage), rep="b")
            error = self._op(ops.FIRST_ERROR, self._any(self._there, failed), error, rep="e")
        return value, error

    def _quantified(self, every: bool, held: ir.Op, rest: list[ir.Op]) -> tuple[ir.Op, ir.Op]:
        """Return all or exists, and its error: where none decides and one cannot be computed."""
        decides = self._op(ops.NOT, rest[0], rep="b") if every else rest[0]
        if len(rest) == 1:
            decided, error = self._any(held, decides), self._build.const(0, "e")
        else:
            right = self._op(ops.NO_ERROR, rest[1], rep="b")
            failed = self._any(held, self._op(ops.FAILED, rest[1], rep="b"))
            decided = self._any(held, right, decides)
            error = self._both(self._op(ops.NOT, decided, rep="b"), failed)
        return (self._op(ops.NOT, decided, rep="b") if every else decided), error

    def _any(self, *parts: ir.Op) -> ir.Op:
        return self._op(ops.ANY_VICTIM, self._both(*parts), rep="b")

    def _count(self, held: ir.Op) -> ir.Op:
        counted = self._op(ops.TRUE_INT, held, rep="i")
        return self._op(ops.SUM_OF_VICTIMS, counted, rep="i")


def _is_context(op: ir.Op, name: str) -> bool:
    return op.kind is ops.OF_CTX and op.data == name
