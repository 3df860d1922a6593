"""Lowers the scheduler's own functions: tolerations, affinity, fitting, domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from policy_sched.language.abstract import Abstract, NodeMap, NodeRecord, Static, Val
from policy_sched.language.ir import NO_SUCH_KEY, Level, Op
from policy_sched.language.kernels_lists import includes_map
from policy_sched.language.kernels_scheduler import (
    fits,
    has_preferred,
    has_required,
    required_names,
    tolerates,
    without,
)
from policy_sched.language.lower_records import attribute, lookup
from policy_sched.language.lowering import Lowering, Refusal
from policy_sched.language.ranges import BOOLS, INT64
from policy_sched.language.typed import Span
from policy_sched.language.types import BOOL, INT, RESOURCES, STRING, Type, map_of
from policy_sched.model.affinity import NodeAffinity

Handler = Callable[[Lowering, list[Abstract], Type, Span], Abstract]


def _of_pod(low: Lowering, pod: Abstract, name: str, result: Type) -> Val:
    return low.val(attribute(low, low.val(pod), "Pod", name, result))


def _tolerates(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    tolerations = _of_pod(low, args[0], "tolerations", RESOURCES)
    return low.call(tolerates, [tolerations, low.val(args[1])], result, span)


def _affinity_parts(low: Lowering, pod: Abstract) -> tuple[Val, Val]:
    return (
        _of_pod(low, pod, "nodeAffinity", RESOURCES),
        _of_pod(low, pod, "nodeSelector", map_of(STRING, STRING)),
    )


def _asked_about(value: Abstract, span: Span) -> None:
    """Refuse any other node than the one that is asked about: its columns are read."""
    if not isinstance(value, NodeRecord):
        raise Refusal("PS510", "this is only supported of `node` itself yet", span)


def _matches_affinity(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    _asked_about(args[1], span)
    affinity, selector = _affinity_parts(low, args[0])
    op = low.node_op("affinity", affinity.op, selector.op, rep="b")
    return Val(op, low.first(affinity.err, selector.err), BOOL, BOOLS)


def _preference(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    _asked_about(args[1], span)
    affinity, _ = _affinity_parts(low, args[0])
    return Val(low.node_op("preference", affinity.op, rep="i"), affinity.err, INT, _WEIGHTS)


#: Weights are 1..100, and no pod has more than a million terms.
_WEIGHTS: Final = INT64.__class__(0, 10**8)


def _constant_affinity(value: Abstract, span: Span) -> NodeAffinity | None:
    if not isinstance(value, Static):
        raise Refusal("PS510", "an affinity has to be a parameter as it stands", span)
    if not value.value:
        return None
    try:
        return msgspec.convert(value.value, NodeAffinity)
    except msgspec.ValidationError as error:
        raise Refusal("PS012", f"not a node affinity: {error}", span) from None


def _node_matches(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    _asked_about(args[0], span)
    affinity = _constant_affinity(args[1], span)
    if affinity is None or affinity.required is None:
        return Static(True, BOOL)
    empty = low.build.const({}, "o")
    op = low.node_op("affinity", low.build.const(affinity, "o"), empty, rep="b")
    return Val(op, None, BOOL, BOOLS)


def _node_preference(low: Lowering, args: list[Abstract], _result: Type, span: Span) -> Abstract:
    _asked_about(args[0], span)
    affinity = _constant_affinity(args[1], span)
    if affinity is None or not affinity.preferred:
        return Static(0, INT)
    op = low.node_op("preference", low.build.const(affinity, "o"), rep="i")
    return Val(op, None, INT, _WEIGHTS)


def _has_preferred_terms(
    _low: Lowering, args: list[Abstract], _result: Type, span: Span
) -> Abstract:
    affinity = _constant_affinity(args[0], span)
    return Static(affinity is not None and bool(affinity.preferred), BOOL)


def _has_required(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    return low.call(has_required, list(_affinity_parts(low, args[0])), result, span)


def _has_preferred(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(has_preferred, [affinity], result, span)


def _required_names(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    affinity, _ = _affinity_parts(low, args[0])
    return low.call(required_names, [affinity], result, span)


def _fits(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    wanted, room = low.val(args[0]), args[1]
    if any(not (isinstance(a, Static) and not a.value) for a in args[2:]):
        rest = [low.val(a) for a in args[2:]]
        wanted = low.call(without, [wanted, *rest], RESOURCES, span)
    if isinstance(room, NodeMap):
        op = low.node_op("fits", wanted.op, rep="b", data=room.family)
        return Val(op, wanted.err, BOOL, BOOLS)
    return low.call(fits, [wanted, low.val(room)], result, span)


def _domain_key(low: Lowering, key: Abstract, span: Span) -> Op:
    one = low.plain(key)
    if one.op.level is Level.NODE:
        raise Refusal("PS211", "this label differs from node to node; a domain has one", span)
    return low.op("domain_index", one.op, rep="o")


def _domain(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    (key,) = args
    index = _domain_key(low, key, span)
    found = lookup(low, NodeMap("label", map_of(STRING, STRING)), key, STRING, span)
    value = getattr(found, "value", None)
    assert isinstance(value, Val)
    code = value.op
    missing = low.op("eq", code, low.build.const(0, "i"), rep="b")
    detail = str(key.value) if isinstance(key, Static) else ""
    own = low.error_if(missing, low.build.site(NO_SUCH_KEY, detail, span))
    return Val(low.op("domain_at", index, code, rep="o"), low.first(key.err, own), result)


def _domains(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    index = _domain_key(low, args[0], span)
    return Val(low.op("domain_list", index, rep="o"), args[0].err, result)


def _includes(low: Lowering, args: list[Abstract], result: Type, span: Span) -> Abstract:
    whole, part = args
    if isinstance(whole, NodeMap) and whole.family == "label":
        wanted = low.val(part)
        op = low.node_op("affinity", low.build.const(None, "o"), wanted.op, rep="b")
        return Val(op, wanted.err, BOOL, BOOLS)
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
