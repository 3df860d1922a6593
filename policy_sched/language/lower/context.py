"""The state of lowering, and the operations that all of its parts share.

Theory of operation. Lowering runs the typed tree over abstract values. `Facts` hold at the position
of an expression: ranges of ops narrowed by the tests that guard it, and bools known to be true or
false. They only choose variants (a sum without an overflow check); where the guard does not hold,
the value of such an op is undefined and never read. A name is bound to a `Thunk`: it is lowered
when it is first read, with the facts of the place where it was bound, and then kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched.language import ir, values
from policy_sched.language.ir import ops
from policy_sched.language.lower import abstract_values
from policy_sched.language.lower.abstract_values import Constant, Value
from policy_sched.language.stdlib import value_at
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import intervals as ranges, types

#: Attributes of NodeFacts that hold all that a family of columns has of a node.
_WHOLE = {
    "image": "images",
    "nonZeroRequested": "non_zero_requested",
    "deviceAllocatable": "device_allocatable",
    "deviceRequested": "device_requested",
}


#: Parts of the typed trees of one policy, loops over constant lists unrolled, and their operations.
MAX_LOWERED: Final = 60_000
MAX_OPS: Final = 20_000


class Refusal(Exception):  # noqa: N818  # becomes a Diagnostic, never reaches a user as such
    """A correct expression that cannot be compiled: a diagnostic's code, message and place."""

    def __init__(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        """Take what is wrong; without a span it is the expression that is being lowered."""
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint
        self.span = Span(0, 0) if span is None else span
        self._placed = span is not None

    def placed_at(self, span: Span) -> Refusal:
        """Take a place if there is none yet, and return the refusal."""
        if not self._placed:
            self.span, self._placed = span, True
        return self


class Facts(msgspec.Struct, frozen=True):
    """Facts at the position of an expression."""

    ranges: Mapping[ir.Op, values.Interval] = msgspec.field(default_factory=dict)
    truths: Mapping[ir.Op, bool] = msgspec.field(default_factory=dict)


Env = Mapping[str, "Thunk | abstract_values.Abstract"]


@dataclass(slots=True, eq=False)
class Thunk:
    """An expression that is lowered when it is first read."""

    core: ast.Core
    env: Env
    facts: Facts
    value: abstract_values.Abstract | None = None


class Lowering:
    """Lowers expressions of one policy into one graph.

    ``dispatch`` lowers any node (dispatch.py) and ``listing`` makes a list of a comprehension
    (loops.py); both are passed in, because they call this class.
    """

    def __init__(
        self,
        dispatch: Callable[[Lowering, ast.Core, Env], abstract_values.Abstract],
        listing: Callable[[Lowering, abstract_values.Comprehension], Value],
        functions: Mapping[str, ast.UserFunction],
    ) -> None:
        self._dispatch = dispatch
        self._listing = listing
        self.functions = functions
        self.build = ir.Builder()
        self.facts = Facts()
        self.objects: Mapping[str, types.ObjectType] = {}
        """What the policy reads of `object` of pods, nodes and groups; of others all is read."""
        self.globals: dict[str, Thunk | abstract_values.Abstract] = {}
        self.bound: set[ir.Op] = set()
        """Loop variables that a macro has given a name to: another macro needs others."""
        self._lowered = 0
        self.run: set[ir.Op] = set()
        """Loop variables of the loops that exist: another loop needs others."""
        self.loops: dict[Hashable, ir.Op] = {}
        """The loops that exist, by what they run over and what they make."""
        self.aggregates: set[str] = set()
        """Identities of the aggregates that are read."""
        self.totals: dict[Hashable, ir.Op] = {}
        """Counts over all pods of the cluster, by their condition."""

    # Names.

    def lower(self, core: ast.Core, env: Env) -> abstract_values.Abstract:
        """Return the abstract value of an expression."""
        self._lowered += 1
        if self._lowered > MAX_LOWERED or self.build.size > MAX_OPS:
            message = "the loops over constant lists come to too many operations"
            hint = "shorten the lists, or nest fewer loops"
            raise Refusal("PS503", message, core.span, hint)
        try:
            return self._dispatch(self, core, env)
        except Refusal as refusal:
            refusal.placed_at(core.span)
            raise

    def thunk(self, core: ast.Core, env: Env) -> Thunk:
        """Return an expression to be lowered when it is read, with the facts of now."""
        return Thunk(core, env, self.facts)

    def force(self, value: Thunk | abstract_values.Abstract) -> abstract_values.Abstract:
        """Return what a name is bound to."""
        if not isinstance(value, Thunk):
            return value
        if value.value is None:
            with self._with(value.facts):
                value.value = self.lower(value.core, value.env)
        return value.value

    def quotas(self, kind: types.QuotaType) -> str:
        """Return the name that the cluster knows quotas by: it begins with their inputs'."""
        known = self.globals.get("inputs")
        inputs = known.value if isinstance(known, Constant) else {}
        names = [inputs.get(name, name) for name in types.inputs_of_quotas(kind.identity)]
        return f"{'|'.join(names)}#{kind.identity.rpartition('#')[2]}"

    # Facts.

    @contextmanager
    def _with(self, facts: Facts) -> Iterator[None]:
        before, self.facts = self.facts, facts
        try:
            yield
        finally:
            self.facts = before

    @contextmanager
    def assuming(self, *tests: tuple[Constant | Value | None, bool]) -> Iterator[None]:
        """Lower under the assumption that tests are true (or false)."""
        facts = self.facts
        for test, truth in tests:
            if isinstance(test, Value):
                facts = _assume(facts, test.op, truth)
        with self._with(facts):
            yield

    def range(self, value: Constant | Value) -> values.Interval:
        """Return the range of a number here."""
        if isinstance(value, Constant):
            content = value.value
            return ranges.point(content) if isinstance(content, (int, float)) else ranges.DOUBLES
        here = self.facts.ranges.get(value.op)
        return value.range if here is None else ranges.meet(here, value.range)

    def narrowed(self, value: abstract_values.Abstract) -> abstract_values.Abstract:
        """Return a value with the range that it has here, for where the facts are forgotten."""
        if isinstance(value, Value) and value.op in self.facts.ranges:
            return Value(value.op, value.err, value.type, self.range(value))
        return value

    # Ops.

    def op(self, kind: ir.OpKind, *args: ir.Op, rep: str, data: Hashable = None) -> ir.Op:
        """Return an op; it is per row if an argument is."""
        return self.build.op(kind, *args, rep=rep, data=data)

    def node_op(self, kind: ir.OpKind, *args: ir.Op, rep: str, data: Hashable = None) -> ir.Op:
        """Return an op that is per row by itself."""
        return self.build.op(kind, *args, rep=rep, data=data, level=ir.Level.NODE)

    def first(self, *errors: ir.Op | None) -> ir.Op | None:
        """Return the first of several errors, None if there can be none."""
        error_of_all: ir.Op | None = None
        for error in errors:
            if error is None or error is error_of_all:
                continue
            if error.kind is ops.CONST and error.data == 0:
                continue
            if error_of_all is not None and error_of_all.kind is ops.CONST:
                return error_of_all
            error_of_all = (
                error
                if error_of_all is None
                else self.op(ops.FIRST_ERROR, error_of_all, error, rep="e")
            )
        return error_of_all

    def error_if(self, test: ir.Op, site: int) -> ir.Op | None:
        """Return the error that is ``site`` where ``test`` is true."""
        if test.kind is ops.CONST:
            return self.build.const(site, "e") if test.data else None
        if self.facts.truths.get(test) is False:
            return None
        if test.kind is ops.NOT and self.facts.truths.get(test.args[0]) is True:
            return None
        return self.op(ops.ERROR_IF, test, rep="e", data=site)

    def failing(self, kind: int, detail: str, span: Span, of: types.Type) -> Value:
        """Return a value that is always an error."""
        site = self.build.site(kind, detail, span)
        value = self.build.const(abstract_values.default_of(of), abstract_values.rep_of(of))
        return Value(value, self.build.const(site, "e"), of, abstract_values.range_of(of))

    def masked(self, test: ir.Op | None, error: ir.Op | None) -> ir.Op | None:
        """Return ``error`` where ``test`` holds, no error elsewhere."""
        if error is None or test is None:
            return error
        return self.op(ops.WHERE, test, error, self.build.const(0, "e"), rep="e")

    def pair(self, op: ir.Op, rep: str) -> tuple[ir.Op, ir.Op]:
        """Return the value and the error of an op that makes both."""
        return self.op(ops.VAL, op, rep=rep), self.op(ops.ERR, op, rep="e")

    def negation(self, op: ir.Op) -> ir.Op:
        """Return the opposite of a bool."""
        if op.kind is ops.CONST:
            return self.build.const(not op.data, "b")
        return op.args[0] if op.kind is ops.NOT else self.op(ops.NOT, op, rep="b")

    # Values.

    def val(self, value: abstract_values.Abstract) -> Value:
        """Return a value as one op."""
        match value:
            case Value():
                return value
            case Constant():
                op = self.build.const(value.value, abstract_values.rep_of(value.type))
                return Value(op, None, value.type, self.range(value))
            case abstract_values.Opt():
                return self._opt_val(value)
            case abstract_values.MaskedList():
                flat = []
                for mask, item in value.items:
                    flat += [self.true() if mask is None else mask.op, self.plain(item).op]
                return Value(self.op(ops.MASKED, *flat, rep="o"), value.err, value.type)
            case abstract_values.Comprehension():
                return self._listing(self, value)
            case abstract_values.NodeMap():
                return self._node_map_val(value)
            case abstract_values.ImageRecord():
                return self._image_val(value)
            case abstract_values.NodeRecord():
                return Value(self.node_object(ops.FACTS_AT), value.err, value.type)
        raise AssertionError(value)

    def node_object(self, kind: ir.OpKind = ops.NODE_AT) -> ir.Op:
        """Return the node of the row: the API's object, or a record by itself (`FACTS_AT`)."""
        return self.op(kind, self.node_op(ops.ROW, rep="i"), rep="o")

    def _node_map_val(self, value: abstract_values.NodeMap) -> Value:
        path = {"label": "metadata.labels", "annotation": "metadata.annotations"}.get(value.family)
        if path is not None:
            op = self.op(ops.ATTR, self.node_object(), rep="o", data=path)
        else:
            data = _WHOLE.get(value.family, value.family)
            op = self.op(ops.ATTR, self.node_object(ops.FACTS_AT), rep="o", data=data)
        return Value(op, value.err, value.type)

    def _image_val(self, value: abstract_values.ImageRecord) -> Value:
        whole = self._node_map_val(
            abstract_values.NodeMap("image", types.map_of(types.STRING, value.type))
        )
        default = Value(
            self.build.const(abstract_values.default_of(value.type), "o"), None, value.type
        )
        reference = self.call(
            value_at, [whole, self.plain(value.name), default], value.type, Span(0, 0)
        )
        return Value(reference.op, self.first(value.err, reference.err), value.type)

    def true(self) -> ir.Op:
        """Return the constant true."""
        return self.build.const(True, "b")

    def plain(self, value: abstract_values.Abstract) -> Value:
        """Return a value as one op that is no code: a node-level string becomes its text."""
        scalar = self.val(value)
        if scalar.op.rep == "c":
            return Value(self.op(ops.TEXT, scalar.op, rep="s"), scalar.err, scalar.type)
        return scalar

    def _opt_val(self, value: abstract_values.Opt) -> Value:
        inner = self.plain(value.value)
        some = self.op(ops.SOME, inner.op, rep="o")
        op = self.op(
            ops.WHERE, self.val(value.present).op, some, self.op(ops.NONE, rep="o"), rep="o"
        )
        return Value(op, value.err, value.type)

    def opt(self, value: abstract_values.Abstract) -> abstract_values.Opt:
        """Return an optional as its presence and its value."""
        if isinstance(value, abstract_values.Opt):
            return value
        kind = value.type
        assert isinstance(kind, types.OptionalType), kind
        if isinstance(value, Constant):
            inner = (
                value.value.value
                if isinstance(value.value, values.Some)
                else abstract_values.default_of(kind.element)
            )
            present = Constant(value.value is not None, types.BOOL)
            return abstract_values.Opt(present, Constant(inner, kind.element), None, kind)
        optional = self.val(value)
        present_op = self.op(ops.IS_SOME, optional.op, rep="b")
        rep = abstract_values.rep_of(kind.element)
        default = self.build.const(abstract_values.default_of(kind.element), rep)
        got = self.op(ops.OPT_VALUE, optional.op, default, rep=rep)
        inner_val = Value(got, None, kind.element, abstract_values.range_of(kind.element))
        return abstract_values.Opt(abstract_values.truth(present_op), inner_val, optional.err, kind)

    def call(  # noqa: PLR0913  # a builtin, its arguments, and what is known of its result
        self,
        function: Callable[..., Any],
        args: list[Value],
        result: types.Type,
        span: Span,
        *,
        fallible: bool = False,
        details: tuple[str, ...] = (),
        interval: values.Interval | None = None,
    ) -> Value:
        """Return the call of a builtin; it is not called where an argument is an error."""
        error = self.first(*(a.err for a in args))
        guards = () if error is None else (error,)
        parts = (*guards, *(self.plain(a).op for a in args))
        rep = abstract_values.rep_of(result)
        site = self.build.sites_of_call(details, span) if fallible else None
        data = ir.Call(function, abstract_values.default_of(result), len(guards), site)
        bounds = interval or abstract_values.range_of(result)
        if not fallible:
            return Value(self.op(ops.CALL, *parts, rep=rep, data=data), error, result, bounds)
        value, own = self.pair(self.op(ops.CALL, *parts, rep=f"t{rep}", data=data), rep)
        return Value(value, self.first(error, own), result, bounds)

    def fold(
        self, function: Callable[..., Any], args: list[Any], result: types.Type, span: Span
    ) -> abstract_values.Abstract:
        """Return the result of a builtin on constants."""
        try:
            return Constant(values.folded(function, args), result)
        except values.Fault as fault:
            return self.failing(fault.kind, "", span, result)
        except values.LimitError as error:
            raise Refusal("PS503", f"the constant cannot be computed: {error}", span) from None

    def int_const(self, number: int) -> Constant:
        """Return an int known at compile time."""
        return Constant(number, types.INT)


#: Lowers the call of an overload: its arguments, the result's type and the call's place.
Handler: TypeAlias = Callable[
    [Lowering, list[abstract_values.Abstract], types.Type, Span], abstract_values.Abstract
]


def element_type(kind: types.Type) -> types.Type:
    """Return the type of a list's elements (of a map's keys, that is string)."""
    return kind.element if isinstance(kind, types.ListType) else types.STRING


def _assume(facts: Facts, op: ir.Op, truth: bool) -> Facts:
    """Return facts with ``op`` known to be ``truth``, and what follows from it."""
    intervals = dict(facts.ranges)
    truths = dict(facts.truths)
    todo = [(op, truth)]
    while todo:
        at, is_true = todo.pop()
        truths[at] = is_true
        if at.kind is ops.NOT:
            todo.append((at.args[0], not is_true))
        elif at.kind is (ops.AND if is_true else ops.OR):
            todo.extend((a, is_true) for a in at.args)
        elif at.kind in _OPPOSITE and at.args[0].rep in "if":
            _assume_comparison(intervals, at, is_true)
    return Facts(intervals, truths)


_OPPOSITE: Final = {
    ops.LT: ops.GE,
    ops.LE: ops.GT,
    ops.GT: ops.LE,
    ops.GE: ops.LT,
    ops.EQ: ops.NE,
    ops.NE: ops.EQ,
}
_MIRROR: Final = {ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE}


def _assume_comparison(intervals: dict[ir.Op, values.Interval], op: ir.Op, truth: bool) -> None:
    kind = op.kind if truth else _OPPOSITE[op.kind]
    left, right = op.args
    if left.kind is ops.CONST:
        left, right, kind = right, left, _MIRROR.get(kind, kind)
    if right.kind is not ops.CONST or not isinstance(right.data, (int, float)):
        return
    if left.rep == "f" and not truth:
        return  # the opposite of a comparison also holds for NaN
    bound = right.data
    if not math.isfinite(bound):
        return
    low, high = -float("inf"), float("inf")
    whole = left.rep == "i"  # beside an int a double stands between two of them
    match kind:
        case ops.GT:
            low = math.floor(bound) + 1 if whole else bound
        case ops.GE:
            low = math.ceil(bound) if whole else bound
        case ops.LT:
            high = math.ceil(bound) - 1 if whole else bound
        case ops.LE:
            high = math.floor(bound) if whole else bound
        case ops.EQ if not whole or bound == math.floor(bound):
            low = high = math.floor(bound) if whole else bound
        case _:
            return
    _narrow(intervals, left, values.Interval(low, high))
    if left.kind is ops.SIGN:
        low = low if low <= 0 else 1
        high = high if high >= 0 else -1
        _narrow(
            intervals,
            left.args[0],
            values.Interval(low if low >= 0 else -math.inf, high if high <= 0 else math.inf),
        )


def _narrow(intervals: dict[ir.Op, values.Interval], op: ir.Op, narrowed: values.Interval) -> None:
    before = intervals.get(op)
    intervals[op] = narrowed if before is None else ranges.meet(before, narrowed)
