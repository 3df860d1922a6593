"""Lowers calls: folds constants, selects cheap forms, and otherwise calls the builtin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from policy_sched.language import stdlib
from policy_sched.language.ir import Level, OpKind, ops
from policy_sched.language.lower import arithmetic, logic, units
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    MaskedList,
    Value,
    rep_of,
)
from policy_sched.language.lower.context import Env, Handler, Lowering, Refusal, element_type
from policy_sched.language.lower.loops import AGGREGATES, MAX_LENGTH
from policy_sched.language.lower.records import has
from policy_sched.language.lower.scheduler import QUANTITIES, SCHEDULER
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import NO_VALUE, Interval, types

#: Functions whose second argument is a regular expression.
_PATTERNS: Final = frozenset({"matches_string_string", "find_string_string"})


def call(low: Lowering, core: ast.Call, env: Env) -> Abstract:
    """Lower a call of one overload."""
    name, result, span = core.overload, core.type, core.span
    if name in ("orValue_optional_any", "or_optional_optional"):
        first = low.lower(core.args[0], env)
        lower = logic.or_value if name.startswith("orValue") else logic.or_optional
        return lower(low, first, core.args[1], env, result)
    args = units.in_one_unit(low, [low.lower(arg, env) for arg in core.args], span, result)
    result = _of_args(result, args)
    if name == "format_string_list" and isinstance(core.args[1], ast.ListLit):
        kinds = [element.type for element in core.args[1].elements]
        return _format_as(low, args, kinds, result, span)
    quantities = [a for a in args if isinstance(a.type, types.QuantityType)]
    if quantities and all(units.is_free(q.type) for q in quantities) and name in stdlib.FREE:
        return _apply(low, stdlib.FREE[name], args, result, span)
    handler = _HANDLERS.get(name) or QUANTITIES.get(name)
    constant = all(isinstance(a, Constant) for a in args) and not quantities
    if handler is not None and not (constant and name in stdlib.BUILTINS):
        return handler(low, args, result, span)
    if name in arithmetic.BINARY and not (constant and name in stdlib.BUILTINS):
        return _binary(low, name, args, result, span)
    handler = AGGREGATES.get(name) or SCHEDULER.get(name)
    if handler is not None and not (constant and name in stdlib.BUILTINS):
        return handler(low, args, result, span)
    if name in _PATTERNS and low.plain(args[1]).op.level is Level.NODE:
        raise Refusal(
            "PS506",
            "this pattern differs from node to node; a pattern is known before the node is",
            core.args[1].span,
            "compare with ==, startsWith or contains, or take the pattern from the pod or params",
        )
    return _apply(low, stdlib.BUILTINS[name], args, result, span)


def _of_args(result: types.Type, args: list[Abstract]) -> types.Type:
    """Return a call's type, its unit that of its arguments where the checker did not know it."""
    if not any(kind.dimension == "any" for kind in units.quantities_in(result)):
        return result
    quantities = {kind for arg in args for kind in units.quantities_in(arg.type)}
    return units.with_unit(result, quantities.pop()) if len(quantities) == 1 else result


def _apply(
    low: Lowering, builtin: stdlib.Builtin, args: list[Abstract], result: types.Type, span: Span
) -> Abstract:
    values = [a.value for a in args if isinstance(a, Constant)]
    if len(values) == len(args):
        return low.fold(builtin.function, values, result, span)
    return low.call(
        builtin.function, [low.val(a) for a in args], result, span, fallible=builtin.fallible
    )


def _binary(
    low: Lowering, name: str, args: list[Abstract], result: types.Type, span: Span
) -> Abstract:
    left, right = args
    kind = result
    if types.UNKNOWN in (left.type, right.type):  # of an element that cannot be there
        never = low.failing(NO_VALUE, "", span, result)
        return logic.with_error(low, never, low.first(left.err, right.err))
    if isinstance(left.type, types.QuantityType) and isinstance(right.type, types.QuantityType):
        a, b, common = units.aligned(low, left, right, span)
        kind = common if isinstance(result, types.QuantityType) else result
    else:
        a, b = low.val(left), low.val(right)
        if isinstance(result, types.QuantityType):
            quantities = (arg.type for arg in (b, a) if isinstance(arg.type, types.QuantityType))
            kind = next(quantities, result)
    return arithmetic.BINARY[name](low, a, b, kind, span)


def _in_list(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    item, listed = args
    contained = _member(low, item, listed, span)
    if contained is None:
        return _apply(low, stdlib.BUILTINS["in_any_list"], args, result, span)
    return logic.with_error(low, contained, low.first(item.err, listed.err))


def _includes(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    listed, item = args
    contained = _member(low, item, listed, span)
    if contained is None:
        return _apply(low, stdlib.BUILTINS["includes_list_any"], args, result, span)
    return logic.with_error(low, contained, low.first(listed.err, item.err))


def _member(low: Lowering, item: Abstract, listed: Abstract, span: Span) -> Abstract | None:
    """Return whether an element equals ``item``, without errors; None if that needs a loop."""
    if isinstance(listed, Constant) and rep_of(item.type) != "o" and len(listed.value) <= _FEW:
        element = element_type(listed.type)
        listed = MaskedList(
            tuple((None, Constant(x, element)) for x in listed.value), None, listed.type
        )
    if isinstance(listed, MaskedList):
        parts = []
        for mask, other in listed.items:
            same = logic.equality(low, item, other, span)
            parts.append(same if mask is None else logic.combine(low, [mask, same], every=True))
        return logic.combine(low, [logic.without_error(low, p) for p in parts], every=False)
    return None


_FEW: Final = 8


def _in_map(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    key, whole = (logic.without_error(low, arg) for arg in args)
    return logic.with_error(low, has(low, whole, key, span), low.first(*(arg.err for arg in args)))


def _one(function: Callable[[Lowering, Value], Value]) -> Handler:
    return lambda low, args, _result, _span: function(low, low.val(args[0]))


def _negated(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    operand = low.val(args[0])
    if operand.op.rep == "f":
        minus = low.val(Constant(-1.0, types.DOUBLE))
        return arithmetic.double(low, ops.FMUL, operand, minus)
    return arithmetic.negated(
        low, operand, operand.type if isinstance(result, types.QuantityType) else result, span
    )


def _extreme(sign: int) -> Handler:
    def lower(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
        values = _alike(low, args, span)
        if values is None:
            name = "max_any" if sign > 0 else "min_any"
            return _apply(low, stdlib.BUILTINS[name], args, result, span)
        best = values[0]
        for value in values[1:]:
            best = arithmetic.extreme(low, best, value, sign)
        return best

    return lower


def _alike(low: Lowering, args: list[Abstract], span: Span) -> list[Value] | None:
    """Return numbers of one unit as ops; None where they are no numbers."""
    if rep_of(args[0].type) not in "if":
        return None
    kinds = [a.type for a in args if isinstance(a.type, types.QuantityType)]
    if not kinds:
        return [low.val(a) for a in args]
    kind = units.joint(kinds, span)
    return [replace(units.in_units(low, a, kind, span), type=kind) for a in args]


def _clamp(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    values = _alike(low, args, span)
    if values is None:
        return _apply(low, stdlib.BUILTINS["clamp_any_any_any"], args, result, span)
    number, least, greatest = values
    return arithmetic.extreme(low, arithmetic.extreme(low, number, least, 1), greatest, -1)


def _plus_int(sign: OpKind) -> Handler:
    def lower(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
        left, right = low.val(args[0]), low.val(args[1])
        kind = left.type
        assert isinstance(kind, types.QuantityType)
        scale = low.val(units.scale_of(low, kind, span))
        scaled = arithmetic.whole(low, ops.MUL, right, scale, kind, span)
        return arithmetic.whole(low, sign, left, scaled, kind, span)

    return lower


#: Ranges up to this size are looked up in a table.
_MAX_TABLE: Final = 1024


def _interpolated(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    x, shape = args
    builtin = stdlib.BUILTINS["interpolate_int_list"]
    if isinstance(shape, Constant) and not stdlib.is_shape(shape.value):
        message = "the points of a shape are [x, y], each x above the one before"
        raise Refusal("PS012", message, span, "write [[0, 0], [100, 100]]")
    bounds = low.range(x) if isinstance(x, Value) and x.op.rep == "i" else None
    if bounds is None or not isinstance(shape, Constant) or bounds.hi - bounds.lo > _MAX_TABLE:
        return _apply(low, builtin, args, result, span)
    positions = range(int(bounds.lo), int(bounds.hi) + 1)
    entries = [low.fold(builtin.function, [at, shape.value], result, span) for at in positions]
    table = [entry.value for entry in entries if isinstance(entry, Constant)]
    if len(table) != len(entries):
        return _apply(low, builtin, args, result, span)
    position = low.val(x)
    data = low.build.table(table, positions.start)
    op = low.op(ops.TABLE, position.op, rep="i", data=data)
    return Value(op, position.err, result, Interval(min(table), max(table)))


def _format_as(
    low: Lowering, args: list[Abstract], kinds: Sequence[types.Type], result: types.Type, span: Span
) -> Abstract:
    builtin = stdlib.Builtin(stdlib.formatter(kinds, element_type(args[1].type)), True)
    return _apply(low, builtin, args, result, span)


def _string_size(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    interval = Interval(0, MAX_LENGTH)
    return low.call(len, [low.val(args[0])], result, span, interval=interval)


_HANDLERS: Final[dict[str, Handler]] = {
    "eq_any_any": lambda low, args, _r, s: logic.equality(low, args[0], args[1], s),
    "ne_any_any": lambda low, args, _r, s: logic.opposite(
        low, logic.equality(low, args[0], args[1], s)
    ),
    "not_bool": lambda low, args, _r, _s: logic.opposite(low, args[0]),
    "in_any_list": _in_list,
    "includes_list_any": _includes,
    "in_any_map": _in_map,
    "in_string_resources": _in_map,
    "double_int": _one(arithmetic.to_double),
    "int_double": lambda low, args, _r, s: arithmetic.to_int(low, low.val(args[0]), s),
    "math_round_double": _one(arithmetic.rounded),
    "math_sign_int": _one(arithmetic.sign_of),
    "neg_int": _negated,
    "neg_double": _negated,
    "neg_quantity": _negated,
    "add_quantity_int": _plus_int(ops.ADD),
    "sub_quantity_int": _plus_int(ops.SUB),
    **{name: _extreme(1) for name in ("max_any", "math_greatest_any")},
    **{name: _extreme(-1) for name in ("min_any", "math_least_any")},
    "clamp_any_any_any": _clamp,
    **{
        name: lambda low, args, _r, s: arithmetic.magnitude(low, low.val(args[0]), s)
        for name in ("abs_int", "abs_double", "abs_quantity", "math_abs_int", "math_abs_double")
    },
    "format_string_list": lambda low, args, r, s: _format_as(low, args, (), r, s),
    "interpolate_int_list": _interpolated,
    "interpolate_double_list": _interpolated,
    "optional_of_any": lambda _low, args, r, _s: logic.some(args[0], r),
    "optional_none": lambda _low, _args, r, _s: Constant(None, r),
    "optional_ofNonZeroValue_any": lambda low, args, r, s: logic.non_zero(low, args[0], r, s),
    "hasValue_optional": lambda low, args, _r, _s: logic.has_value(low, args[0]),
    "value_optional": lambda low, args, r, s: logic.value_of(low, args[0], r, s),
    "size_string": _string_size,
    **{
        f"{kind}_{kind}": lambda _low, args, _r, _s: args[0]
        for kind in ("int", "double", "string", "bool", "duration", "timestamp")
    },
}
