"""Lowers functions over Kubernetes' values: quantities, tolerations, affinity, fit, domains."""

from __future__ import annotations

from typing import Final

import msgspec

from policy_sched.language import stdlib
from policy_sched.language.ir import Level, Op, ops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    NodeMap,
    NodeRecord,
    Value,
    truth,
)
from policy_sched.language.lower.arithmetic import sign_of, to_double, whole
from policy_sched.language.lower.context import Handler, Lowering, Refusal
from policy_sched.language.lower.logic import with_error, without_error
from policy_sched.language.lower.records import attribute, lookup
from policy_sched.language.lower.units import aligned, in_units, scale_of
from policy_sched.language.syntax import Span
from policy_sched.language.values import BOOLS, CONVERSION, NO_SUCH_KEY, Interval, types

#: What an affinity is; no expression has one as its value.
_AFFINITY: Final = types.record("NodeAffinity")
_LABELS: Final = types.map_of(types.STRING, types.STRING)


def _of_pod(low: Lowering, pod: Abstract, name: str, result: types.Type) -> Value:
    return low.val(attribute(low, low.val(pod), "Pod", name, result))


def _tolerates(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    tolerations = _of_pod(low, args[0], "tolerations", types.list_of(types.record("Toleration")))
    return low.call(stdlib.tolerates, [tolerations, low.val(args[1])], result, span)


def _affinity_parts(low: Lowering, pod: Abstract) -> tuple[Value, Value]:
    return _of_pod(low, pod, "nodeAffinity", _AFFINITY), _of_pod(low, pod, "nodeSelector", _LABELS)


def _matches(low: Lowering, node: Abstract, affinity: Value, selector: Value, span: Span) -> Value:
    """Lower whether a node has the labels of ``selector`` and meets an affinity."""
    if isinstance(node, NodeRecord):
        op = low.node_op(ops.AFFINITY, affinity.op, selector.op, rep="b")
        return truth(op, low.first(affinity.err, selector.err))
    return low.call(
        stdlib.node_matches,
        [affinity, selector, *_identity(low, node)],
        types.BOOL,
        span,
        interval=BOOLS,
    )


def _preferred(low: Lowering, node: Abstract, affinity: Value, span: Span) -> Value:
    """Lower the sum of the weights of an affinity's terms that a node meets."""
    if isinstance(node, NodeRecord):
        return Value(
            low.node_op(ops.PREFERENCE, affinity.op, rep="i"), affinity.err, types.INT, _WEIGHTS
        )
    return low.call(
        stdlib.preference, [affinity, *_identity(low, node)], types.INT, span, interval=_WEIGHTS
    )


def _identity(low: Lowering, node: Abstract) -> tuple[Value, Value]:
    """Return the labels and the name of a node that is a record by itself."""
    node_value = low.val(node)
    labels = low.val(attribute(low, node_value, "Node", "labels", _LABELS))
    return labels, low.val(attribute(low, node_value, "Node", "name", types.STRING))


def _matches_affinity(
    low: Lowering, args: list[Abstract], _result: types.Type, span: Span
) -> Abstract:
    return _matches(low, args[1], *_affinity_parts(low, args[0]), span)


def _preference(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    return _preferred(low, args[1], _affinity_parts(low, args[0])[0], span)


#: Weights are 1..100, and no pod has more than a million terms.
_WEIGHTS: Final = Interval(0, 10**8)


def _given_affinity(low: Lowering, value: Abstract, span: Span) -> Constant | Value:
    """Return an affinity from the parameters; None if it is empty."""
    if not isinstance(value, Constant):
        return low.call(stdlib.read_affinity, [low.val(value)], _AFFINITY, span, fallible=True)
    try:
        return Constant(stdlib.affinity_of(value.value), _AFFINITY)
    except msgspec.ValidationError as error:
        raise Refusal("PS012", f"not a node affinity: {error}", span) from None


def _node_matches(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    affinity = _given_affinity(low, args[1], span)
    if isinstance(affinity, Constant) and (not affinity.value or affinity.value.required is None):
        return with_error(low, Constant(True, types.BOOL), args[0].err)
    node, bare = without_error(low, args[0]), low.val(without_error(low, affinity))
    matched = _matches(low, node, bare, low.val(Constant({}, _LABELS)), span)
    return with_error(low, matched, low.first(args[0].err, affinity.err))


def _node_preference(
    low: Lowering, args: list[Abstract], _result: types.Type, span: Span
) -> Abstract:
    affinity = _given_affinity(low, args[1], span)
    if isinstance(affinity, Constant) and not stdlib.has_preferred(affinity.value):
        return with_error(low, Constant(0, types.INT), args[0].err)
    node, bare = without_error(low, args[0]), low.val(without_error(low, affinity))
    preference = _preferred(low, node, bare, span)
    return with_error(low, preference, low.first(args[0].err, affinity.err))


def _has_preferred_terms(
    low: Lowering, args: list[Abstract], result: types.Type, span: Span
) -> Abstract:
    affinity = _given_affinity(low, args[0], span)
    if isinstance(affinity, Constant):
        return Constant(stdlib.has_preferred(affinity.value), types.BOOL)
    return low.call(stdlib.has_preferred, [affinity], result, span)


def _has_required(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    return low.call(stdlib.has_required, list(_affinity_parts(low, args[0])), result, span)


def _has_preferred(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(stdlib.has_preferred, [affinity], result, span)


def _required_names(
    low: Lowering, args: list[Abstract], result: types.Type, span: Span
) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(stdlib.required_names, [affinity], result, span)


def _fits(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    error = low.first(*(arg.err for arg in args))
    wanted, room, *rest = (without_error(low, arg) for arg in args)
    amounts = low.val(wanted)
    if any(not (isinstance(a, Constant) and not a.value) for a in rest):
        amounts = low.call(stdlib.without, [amounts, *map(low.val, rest)], types.RESOURCES, span)
    if isinstance(room, NodeMap):
        op = low.node_op(ops.FITS, amounts.op, rep="b", data=room.family)
        return truth(op, error)
    return with_error(low, low.call(stdlib.fits, [amounts, low.val(room)], result, span), error)


def _domain_key(low: Lowering, key: Abstract, span: Span) -> Op:
    name = low.plain(key)
    if name.op.level is Level.NODE:
        raise Refusal("PS211", "this label differs from node to node; a domain has one", span)
    return low.op(ops.DOMAIN_INDEX, name.op, rep="o")


def _domain(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    (key,) = args
    index = _domain_key(low, key, span)
    label = lookup(
        low, NodeMap("label", types.map_of(types.STRING, types.STRING)), key, types.STRING, span
    )
    value = getattr(label, "value", None)
    assert isinstance(value, Value)
    code = value.op
    missing = low.op(ops.EQ, code, low.build.const(0, "i"), rep="b")
    detail = str(key.value) if isinstance(key, Constant) else ""
    own = low.error_if(missing, low.build.site(NO_SUCH_KEY, detail, span))
    return Value(low.op(ops.DOMAIN_AT, index, code, rep="o"), low.first(key.err, own), result)


def _domains(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    index = _domain_key(low, args[0], span)
    return Value(low.op(ops.DOMAIN_LIST, index, rep="o"), args[0].err, result)


def _includes(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    whole, part = args
    if isinstance(whole, NodeMap) and whole.family == "label":
        wanted = low.val(part)
        op = low.node_op(ops.AFFINITY, low.build.const(None, "o"), wanted.op, rep="b")
        return truth(op, wanted.err)
    return low.call(stdlib.includes_map, [low.val(whole), low.val(part)], result, span)


SCHEDULER: Final[dict[str, Handler]] = {
    "tolerates_pod_taint": _tolerates,
    "matchesNodeAffinity_pod_node": _matches_affinity,
    "preferredNodeAffinity_pod_node": _preference,
    "hasRequiredNodeAffinity_pod": _has_required,
    "hasPreferredNodeAffinity_pod": _has_preferred,
    "requiredNodeNames_pod": _required_names,
    "matchesAffinity_node_raw": _node_matches,
    "affinityPreference_node_raw": _node_preference,
    "hasPreferredTerms_raw": _has_preferred_terms,
    "fitsIn_resources_resources": _fits,
    "fitsIn_resources_resources_list": _fits,
    "fitsIn_resources_resources_list_list": _fits,
    "domain_string": _domain,
    "domains_string": _domains,
    "includes_map_map": _includes,
}


def _number(low: Lowering, value: Abstract, span: Span) -> tuple[Value, int | Value]:
    """Return a quantity as an int of its units, and how many of these make one."""
    quantity = low.val(value)
    assert isinstance(quantity.type, types.QuantityType)
    scale = scale_of(low, quantity.type, span)
    units_value = Value(quantity.op, quantity.err, types.INT, low.range(quantity))
    return units_value, int(scale.value) if isinstance(scale, Constant) else scale


def _literal(low: Lowering, args: list[Abstract], result: types.Type, span: Span) -> Abstract:
    (text,) = args
    free = types.quantity_of("free")
    amount: Abstract
    if isinstance(text, Constant):
        amount = low.fold(stdlib.fraction_of_text, [text.value], free, span)
    else:
        amount = low.call(stdlib.fraction_of_text, [low.val(text)], free, span, fallible=True)
    assert isinstance(result, types.QuantityType)
    if result.dimension in ("free", "any"):
        return amount
    return in_units(low, amount, result, span)


def _units(low: Lowering, args: list[Abstract], _result: types.Type, _span: Span) -> Abstract:
    quantity = low.val(args[0])
    return Value(quantity.op, quantity.err, types.INT, quantity.range)


def _value(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    units, scale = _number(low, args[0], span)
    return units if scale == 1 else _whole_ones(low, units, scale, span)


def _whole_ones(low: Lowering, units: Value, scale: int | Value, span: Span) -> Value:
    """Return units as whole ones, rounded away from zero."""
    low_end, high_end = int(units.range.lo), int(units.range.hi)
    if isinstance(scale, Value):
        interval = Interval(min(low_end, 0), max(high_end, 0))
        return low.call(stdlib.whole_of_units, [units, scale], types.INT, span, interval=interval)
    interval = Interval(
        stdlib.whole_of_units(low_end, scale), stdlib.whole_of_units(high_end, scale)
    )
    return low.call(
        stdlib.whole_of_units, [units, _int(low, scale)], types.INT, span, interval=interval
    )


def _milli(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    units, scale = _number(low, args[0], span)
    if isinstance(scale, int):
        return (
            units if scale == 1000 else whole(low, ops.MUL, units, _int(low, 1000), types.INT, span)
        )
    times = low.call(stdlib.thousandths_in, [scale], types.INT, span, interval=Interval(1, 1000))
    return whole(low, ops.MUL, units, times, types.INT, span)


def _int(low: Lowering, number: int) -> Value:
    return low.val(low.int_const(number))


def _compare(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    a, b, _ = aligned(low, args[0], args[1], span)
    greater, less = (low.op(kind, a.op, b.op, rep="b") for kind in (ops.GT, ops.LT))
    signs = [low.op(ops.TRUE_INT, op, rep="i") for op in (greater, less)]
    return Value(
        low.op(ops.SUB, *signs, rep="i"), low.first(a.err, b.err), types.INT, Interval(-1, 1)
    )


def _is_integer(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    units, scale = _number(low, args[0], span)
    if scale == 1:
        return with_error(low, Constant(True, types.BOOL), units.err)
    divisor = _int(low, scale) if isinstance(scale, int) else scale
    return low.call(stdlib.is_whole, [units, divisor], types.BOOL, span)


def _as_integer(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    units, scale = _number(low, args[0], span)
    if isinstance(scale, Value):
        return low.call(stdlib.whole_or_fault, [units, scale], types.INT, span, fallible=True)
    if scale == 1:
        return units
    rest = low.op(ops.REMAINDER, units.op, low.build.const(scale, "i"), rep="i")
    broken = low.op(ops.NE, rest, low.build.const(0, "i"), rep="b")
    own = low.error_if(broken, low.build.site(CONVERSION, "", span))
    wholes = _whole_ones(low, units, scale, span)
    return Value(wholes.op, low.first(units.err, own), types.INT, wholes.range)


def _as_double(low: Lowering, args: list[Abstract], _result: types.Type, span: Span) -> Abstract:
    units, scale = _number(low, args[0], span)
    if scale == 1:
        return to_double(low, units)
    divisor = _int(low, scale) if isinstance(scale, int) else scale
    return low.call(stdlib.double_of_units, [units, divisor], types.DOUBLE, span)


QUANTITIES: Final[dict[str, Handler]] = {
    "quantity_string": _literal,
    "units_quantity": _units,
    "value_quantity": _value,
    "milli_quantity": _milli,
    "sign_quantity": lambda low, args, _r, _s: sign_of(low, low.val(args[0])),
    "compareTo_quantity_quantity": _compare,
    "isInteger_quantity": _is_integer,
    "asInteger_quantity": _as_integer,
    "asApproximateFloat_quantity": _as_double,
}
