"""Lowers bools and choices: && and || that absorb errors, ?:, equality, and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from policy_sched.language.ir import Level, Op, ops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Comprehension,
    Constant,
    MaskedList,
    NodeRecord,
    Opt,
    Value,
    default_of,
    rep_of,
    truth,
)
from policy_sched.language.lower.context import Env, Lowering
from policy_sched.language.lower.units import aligned, in_one_unit
from policy_sched.language.stdlib import equal
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import NO_VALUE, Some, intervals as ranges, types


def junction(low: Lowering, args: Sequence[ast.Core], env: Env, *, every: bool) -> Abstract:
    """Lower && (``every``) or ||; each argument assumes the ones before it."""
    lowered: list[Abstract] = []
    with ExitStack() as stack:
        for arg in args:
            value = low.lower(arg, env)
            if isinstance(value, Constant) and value.value is not every:
                return Constant(not every, types.BOOL)
            lowered.append(value)
            if isinstance(value, Value) and value.err is None:
                stack.enter_context(low.assuming((value, every)))
    return combine(low, lowered, every=every)


def combine(low: Lowering, values: Sequence[Abstract], *, every: bool) -> Abstract:
    """Return the conjunction or disjunction of bools; an error is absorbed by what decides."""
    kind, decided = (ops.AND, False) if every else (ops.OR, True)
    parts: list[Op] = []
    errors: list[Op | None] = []
    for value in values:
        if isinstance(value, Constant):
            if value.value is decided:
                return Constant(decided, types.BOOL)
            continue
        operand = low.val(value)
        errors.append(operand.err)
        parts.append(_undecided_where_wrong(low, operand, every=every))
    if not parts:
        return Constant(not decided, types.BOOL)
    parts.sort(key=lambda op: op.level)  # what no row changes decides first, and may save the rows
    total = parts[0]
    for part in parts[1:]:
        if part is not total:
            total = low.op(kind, total, part, rep="b")
    error = low.first(*errors)
    if error is not None:
        undecided = total if every else low.negation(total)
        error = low.masked(undecided, error)
    return truth(total, error)


def _undecided_where_wrong(low: Lowering, value: Value, *, every: bool) -> Op:
    if value.err is None:
        return value.op
    if every:
        return low.op(ops.OR, low.op(ops.FAILED, value.err, rep="b"), value.op, rep="b")
    return low.op(ops.AND, low.op(ops.NO_ERROR, value.err, rep="b"), value.op, rep="b")


def opposite(low: Lowering, value: Abstract) -> Abstract:
    """Lower the operator !."""
    if isinstance(value, Constant):
        return Constant(not value.value, types.BOOL)
    operand = low.val(value)
    return truth(low.negation(operand.op), operand.err)


def condition(low: Lowering, core: ast.Cond, env: Env) -> Abstract:
    """Lower ?:; each branch assumes the test."""
    test = low.lower(core.test, env)
    if isinstance(test, Constant):
        return low.lower(core.then if test.value else core.otherwise, env)
    test_value = low.val(test)
    with low.assuming((test_value, True)):
        then = low.narrowed(low.lower(core.then, env))
    with low.assuming((test_value, False)):
        otherwise = low.narrowed(low.lower(core.otherwise, env))
    return choose(low, test_value, then, otherwise, core.type, core.span)


def choose(  # a choice of two, and where it stands
    low: Lowering,
    test: Constant | Value,
    then: Abstract,
    otherwise: Abstract,
    result: types.Type,
    span: Span,
) -> Abstract:
    """Return ``then`` where ``test`` holds, else ``otherwise``; the error of the one chosen."""
    if isinstance(test, Constant):
        return then if test.value else otherwise
    if isinstance(result, types.OptionalType) and (
        isinstance(then, Opt) or isinstance(otherwise, Opt)
    ):
        return _choose_optional(low, test, low.opt(then), low.opt(otherwise), result, span)
    if isinstance(then, NodeRecord) and isinstance(otherwise, NodeRecord) and test.err is None:
        return then
    kind = otherwise.type if then.type == types.UNKNOWN else then.type
    if _in_two_units(then, otherwise):
        a, b, kind = aligned(low, then, otherwise, span)
    else:
        then, otherwise = in_one_unit(low, [then, otherwise], span)
        a, b = _one_form(low, low.val(then), low.val(otherwise))
    error = _chosen_error(low, test, a.err, b.err)
    op = a.op
    if a.op is not b.op:
        op = low.op(ops.WHERE, test.op, a.op, b.op, rep=a.op.rep)
    interval = ranges.hull(low.range(a), low.range(b))
    return Value(op, low.first(test.err, error), kind, interval)


def _in_two_units(a: Abstract, b: Abstract) -> bool:
    both = isinstance(a.type, types.QuantityType) and isinstance(b.type, types.QuantityType)
    return both and a.type != b.type


def _chosen_error(low: Lowering, test: Value, a: Op | None, b: Op | None) -> Op | None:
    if a is None and b is None:
        return None
    none = low.build.const(0, "e")
    return low.op(ops.WHERE, test.op, a or none, b or none, rep="e")


def _choose_optional(  # as `choose`
    low: Lowering, test: Value, a: Opt, b: Opt, result: types.Type, span: Span
) -> Abstract:
    assert isinstance(result, types.OptionalType)
    bare = truth(test.op)
    present = choose(low, bare, a.present, b.present, types.BOOL, span)
    assert isinstance(present, (Constant, Value))
    value = choose(low, bare, a.value, b.value, result.element, span)
    return Opt(present, value, low.first(test.err, _chosen_error(low, test, a.err, b.err)), result)


def _one_form(low: Lowering, a: Value, b: Value) -> tuple[Value, Value]:
    """Return two values held alike: two strings both as codes where that is possible."""
    if a.op.rep == b.op.rep:
        return a, b
    if "c" in (a.op.rep, b.op.rep):
        if _codable(a) and _codable(b):
            return coded(low, a), coded(low, b)
        return low.plain(a), low.plain(b)
    return a, b


def _codable(value: Value) -> bool:
    return value.op.rep == "c" or (value.op.rep == "s" and value.op.level is Level.SCALAR)


def coded(low: Lowering, value: Value) -> Value:
    """Return a string as its code."""
    if value.op.rep == "c":
        return value
    return Value(low.op(ops.CODE, value.op, rep="c"), value.err, value.type)


def equality(low: Lowering, a: Abstract, b: Abstract, span: Span) -> Abstract:
    """Lower == of two values of one type."""
    a, b = in_one_unit(low, [a, b], span)
    if (
        isinstance(a, Constant)
        and isinstance(b, Constant)
        and not isinstance(a.type, types.QuantityType)
    ):
        return Constant(equal(a.value, b.value), types.BOOL)
    if isinstance(a.type, types.OptionalType) and isinstance(b.type, types.OptionalType):
        return _equal_optionals(low, low.opt(a), low.opt(b), span)
    if _in_two_units(a, b):
        left, right, _ = aligned(low, a, b, span)
    else:
        left, right = low.val(a), low.val(b)
    if types.STRING in (a.type, b.type):
        left, right = _comparable(low, left, right)
    error = low.first(left.err, right.err)
    if rep_of(left.type) == "o":
        return low.call(equal, [left, right], types.BOOL, span)
    if left.op is right.op and left.op.rep != "f":
        return truth(low.true(), error) if error else Constant(True, types.BOOL)
    return truth(low.op(ops.EQ, left.op, right.op, rep="b"), error)


def _comparable(low: Lowering, a: Value, b: Value) -> tuple[Value, Value]:
    """Return two strings so that == of their forms is == of the strings."""
    if a.op.rep == b.op.rep:
        return a, b
    if a.op.rep == "c" and b.op.level is Level.SCALAR:
        return a, _sought(low, b, a.op)
    if b.op.rep == "c" and a.op.level is Level.SCALAR:
        return _sought(low, a, b.op), b
    return low.plain(a), low.plain(b)


def _sought(low: Lowering, text: Value, among: Op) -> Value:
    """Return the code of a text to be compared with codes; one that no column holds may be -1."""
    kind = ops.FIND if among.kind is ops.COLUMN else ops.CODE
    return Value(low.op(kind, text.op, rep="c"), text.err, text.type)


def _equal_optionals(low: Lowering, a: Opt, b: Opt, span: Span) -> Abstract:
    both = combine(low, [a.present, b.present], every=True)
    with low.assuming((a.present, True), (b.present, True)):
        same = equality(low, a.value, b.value, span)
    alike = combine(low, [both, same], every=True)
    neither = combine(low, [opposite(low, a.present), opposite(low, b.present)], every=True)
    result = combine(low, [alike, neither], every=False)
    error = low.first(a.err, b.err)
    if error is None:
        return result
    plain_result = low.val(result)
    return truth(plain_result.op, low.first(error, plain_result.err))


# Optionals.


def some(value: Abstract, result: types.Type) -> Abstract:
    """Lower optional.of."""
    if isinstance(value, Constant):
        return Constant(Some(value.value), result)
    return Opt(Constant(True, types.BOOL), value, value.err, result)


def has_value(low: Lowering, value: Abstract) -> Abstract:
    """Lower hasValue."""
    optional = low.opt(value)
    if optional.err is None:
        return optional.present
    return truth(low.val(optional.present).op, optional.err)


def with_error(low: Lowering, value: Abstract, error: Op | None) -> Abstract:
    """Return ``value`` with an error that comes before its own."""
    if error is None:
        return value
    match value:
        case Opt():
            return Opt(value.present, value.value, low.first(error, value.err), value.type)
        case Value():
            return Value(value.op, low.first(error, value.err), value.type, value.range)
    plain = low.val(value)
    return Value(plain.op, low.first(error, plain.err), plain.type, plain.range)


def without_error(low: Lowering, value: Abstract) -> Abstract:
    """Return a value without its error, which is handled elsewhere."""
    match value:
        case Value():
            return Value(value.op, None, value.type, value.range)
        case Opt():
            return Opt(value.present, value.value, None, value.type)
        case MaskedList():
            return MaskedList(value.items, None, value.type)
        case Comprehension() if value.err is not None or value.errors:
            plain = low.val(value)
            return Value(plain.op, None, plain.type, plain.range)
    return value


def value_of(low: Lowering, value: Abstract, result: types.Type, span: Span) -> Abstract:
    """Lower value(): an error where there is none."""
    optional = low.opt(value)
    error = optional.err
    if isinstance(optional.present, Constant):
        if not optional.present.value:
            return with_error(low, low.failing(NO_VALUE, "", span, result), error)
    else:
        site = low.build.site(NO_VALUE, "", span)
        missing = low.negation(optional.present.op)
        error = low.first(error, low.error_if(missing, site))
    return with_error(low, optional.value, error)


def or_value(
    low: Lowering, value: Abstract, core: ast.Core, env: Env, result: types.Type
) -> Abstract:
    """Lower orValue: the argument counts only where there is no value."""
    optional = low.opt(value)
    if isinstance(optional.present, Constant) and optional.present.value:
        return with_error(low, optional.value, optional.err)
    with low.assuming((optional.present, False)):
        other = low.narrowed(low.lower(core, env))
    chosen = choose(low, optional.present, optional.value, other, result, core.span)
    return with_error(low, chosen, optional.err)


def or_optional(
    low: Lowering, value: Abstract, core: ast.Core, env: Env, result: types.Type
) -> Abstract:
    """Lower or: the first optional that has a value."""
    optional = low.opt(value)
    with low.assuming((optional.present, False)):
        other = low.opt(low.lower(core, env))
    if isinstance(optional.present, Constant):
        chosen: Abstract = optional if optional.present.value else other
        return with_error(low, chosen, optional.err)
    test = truth(optional.present.op)
    here = Opt(Constant(True, types.BOOL), optional.value, None, result)
    chosen = _choose_optional(low, test, here, other, result, core.span)
    return with_error(low, chosen, optional.err)


def non_zero(low: Lowering, value: Abstract, result: types.Type, span: Span) -> Abstract:
    """Lower optional.ofNonZeroValue."""
    if isinstance(value, Opt | NodeRecord):
        return Opt(Constant(True, types.BOOL), value, value.err, result)
    zero = Constant(default_of(value.type), value.type)
    if rep_of(value.type) == "o":
        present = low.call(bool, [low.val(value)], types.BOOL, span)
        return Opt(truth(present.op), value, present.err, result)
    same = equality(low, value, zero, span)
    present_of = opposite(low, same)
    if isinstance(present_of, Constant):
        return Opt(present_of, value, None, result)
    presence = low.val(present_of)
    return Opt(truth(presence.op), value, presence.err, result)
