"""Lowers the scheduler's own functions: tolerations, affinity, fitting, domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from policy_sched.language.ir import Level, Op, ops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    NodeMap,
    NodeRecord,
    Value,
)
from policy_sched.language.lower.context import Lowering, Refusal
from policy_sched.language.lower.logic import with_error, without_error
from policy_sched.language.lower.records import attribute, lookup
from policy_sched.language.stdlib import (
    affinity_of,
    fits,
    has_preferred,
    has_required,
    includes_map,
    node_matches,
    preference,
    read_affinity,
    required_names,
    tolerates,
    without,
)
from policy_sched.language.syntax import Span
from policy_sched.language.values import (
    BOOL,
    BOOLS,
    INT,
    INT64,
    NO_SUCH_KEY,
    RESOURCES,
    STRING,
    Type,
    list_of,
    map_of,
    record,
)

Handler = Callable[[Lowering, list[Abstract], Type, Span], Abstract]


#: What an affinity is; no expression has one as its value.
_AFFINITY: Final = record("NodeAffinity")
_LABELS: Final = map_of(STRING, STRING)


def _of_pod(low: Lowering, pod: Abstract, name: str, result: Type) -> Value:
    return low.val(attribute(low, low.val(pod), "Pod", name, result))


def _tolerates(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    tolerations = _of_pod(low, args[0], "tolerations", list_of(record("Toleration")))
    return low.call(tolerates, [tolerations, low.val(args[1])], result, span)


def _affinity_parts(low: Lowering, pod: Abstract) -> tuple[Value, Value]:
    return _of_pod(low, pod, "nodeAffinity", _AFFINITY), _of_pod(low, pod, "nodeSelector", _LABELS)


def _matches(low: Lowering, node: Abstract, affinity: Value, selector: Value, span: Span) -> Value:
    """Lower whether a node has the labels of ``selector`` and meets an affinity."""
    if isinstance(node, NodeRecord):
        op = low.node_op(ops.AFFINITY, affinity.op, selector.op, rep="b")
        return Value(op, low.first(affinity.err, selector.err), BOOL, BOOLS)
    return low.call(
        node_matches, [affinity, selector, *_identity(low, node)], BOOL, span, interval=BOOLS
    )


def _preferred(low: Lowering, node: Abstract, affinity: Value, span: Span) -> Value:
    """Lower the sum of the weights of an affinity's terms that a node meets."""
    if isinstance(node, NodeRecord):
        return Value(low.node_op(ops.PREFERENCE, affinity.op, rep="i"), affinity.err, INT, _WEIGHTS)
    return low.call(preference, [affinity, *_identity(low, node)], INT, span, interval=_WEIGHTS)


def _identity(low: Lowering, node: Abstract) -> tuple[Value, Value]:
    """Return the labels and the name of a node that is a record by itself."""
    one = low.val(node)
    labels = low.val(attribute(low, one, "Node", "labels", _LABELS))
    return labels, low.val(attribute(low, one, "Node", "name", STRING))


def _matches_affinity(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    return _matches(low, args[1], *_affinity_parts(low, args[0]), span)


def _preference(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    return _preferred(low, args[1], _affinity_parts(low, args[0])[0], span)


#: Weights are 1..100, and no pod has more than a million terms.
_WEIGHTS: Final = INT64.__class__(0, 10**8)


def _given_affinity(low: Lowering, value: Abstract, span: Span) -> Constant | Value:
    """Return an affinity from the parameters; None if it is empty."""
    if not isinstance(value, Constant):
        return low.call(read_affinity, [low.val(value)], _AFFINITY, span, fallible=True)
    try:
        return Constant(affinity_of(value.value), _AFFINITY)
    except msgspec.ValidationError as error:
        raise Refusal("PS012", f"not a node affinity: {error}", span) from None


def _node_matches(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    affinity = _given_affinity(low, args[1], span)
    if isinstance(affinity, Constant) and (not affinity.value or affinity.value.required is None):
        return with_error(low, Constant(True, BOOL), args[0].err)
    node, bare = without_error(low, args[0]), low.val(without_error(low, affinity))
    found = _matches(low, node, bare, low.val(Constant({}, _LABELS)), span)
    return with_error(low, found, low.first(args[0].err, affinity.err))


def _node_preference(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    affinity = _given_affinity(low, args[1], span)
    if isinstance(affinity, Constant) and not has_preferred(affinity.value):
        return with_error(low, Constant(0, INT), args[0].err)
    node, bare = without_error(low, args[0]), low.val(without_error(low, affinity))
    found = _preferred(low, node, bare, span)
    return with_error(low, found, low.first(args[0].err, affinity.err))


def _has_preferred_terms(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    affinity = _given_affinity(low, args[0], span)
    if isinstance(affinity, Constant):
        return Constant(has_preferred(affinity.value), BOOL)
    return low.call(has_preferred, [affinity], result, span)


def _has_required(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    return low.call(has_required, list(_affinity_parts(low, args[0])), result, span)


def _has_preferred(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(has_preferred, [affinity], result, span)


def _required_names(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(required_names, [affinity], result, span)


def _fits(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    error = low.first(*(arg.err for arg in args))
    wanted, room, *rest = (without_error(low, arg) for arg in args)
    amounts = low.val(wanted)
    if any(not (isinstance(a, Constant) and not a.value) for a in rest):
        amounts = low.call(without, [amounts, *map(low.val, rest)], RESOURCES, span)
    if isinstance(room, NodeMap):
        op = low.node_op(ops.FITS, amounts.op, rep="b", data=room.family)
        return Value(op, error, BOOL, BOOLS)
    return with_error(low, low.call(fits, [amounts, low.val(room)], result, span), error)


def _domain_key(low: Lowering, key: Abstract, span: Span) -> Op:
    one = low.plain(key)
    if one.op.level is Level.NODE:
        raise Refusal("PS211", "this label differs from node to node; a domain has one", span)
    return low.op(ops.DOMAIN_INDEX, one.op, rep="o")


def _domain(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (key,) = args
    index = _domain_key(low, key, span)
    found = lookup(low, NodeMap("label", map_of(STRING, STRING)), key, STRING, span)
    value = getattr(found, "value", None)
    assert isinstance(value, Value)
    code = value.op
    missing = low.op(ops.EQ, code, low.build.const(0, "i"), rep="b")
    detail = str(key.value) if isinstance(key, Constant) else ""
    own = low.error_if(missing, low.build.site(NO_SUCH_KEY, detail, span))
    return Value(low.op(ops.DOMAIN_AT, index, code, rep="o"), low.first(key.err, own), result)


def _domains(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    index = _domain_key(low, args[0], span)
    return Value(low.op(ops.DOMAIN_LIST, index, rep="o"), args[0].err, result)


def _includes(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    whole, part = args
    if isinstance(whole, NodeMap) and whole.family == "label":
        wanted = low.val(part)
        op = low.node_op(ops.AFFINITY, low.build.const(None, "o"), wanted.op, rep="b")
        return Value(op, wanted.err, BOOL, BOOLS)
    return low.call(includes_map, [low.val(whole), low.val(part)], result, span)


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
