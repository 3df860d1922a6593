"""The oracle's scheduler functions: tolerations, affinity, selectors, ports, fitting, hashing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from policy_sched.model import meta
from policy_sched.model.pod_info import PodInfo

from . import oracle_world
from .oracle_values import ABSENT, Optional, OracleError, Quantity, quantity_of_units, some
from .oracle_world import NodeRecord, Resources, dimension_of

#: Resource names that scheduling counts as scalar ones, besides the extended ones.
SCALAR_PREFIXES: Final = ("hugepages-", "attachable-volumes-")
FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3


def tolerates(pod: PodInfo, taint: meta.Taint) -> bool:
    """Tell whether one toleration of the pod has the taint's effect, key and value."""
    return any(_tolerates(t, taint) for t in pod.tolerations)


def _tolerates(toleration: meta.Toleration, taint: meta.Taint) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value


def requirement_holds(requirement: meta.NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy one In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not re.fullmatch(r"[+-]?[0-9]+", value):
                return False
            bound = int(requirement.values[0])
            return int(value) > bound if requirement.operator == "Gt" else int(value) < bound
    return False


def term_holds(term: meta.NodeSelectorTerm, record: NodeRecord) -> bool:
    """Tell whether a node satisfies all of a term; the empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    names = {"metadata.name": record.node.metadata.name}
    return all(requirement_holds(r, record.labels) for r in term.match_expressions) and all(
        requirement_holds(r, names) for r in term.match_fields
    )


def matches_node_affinity(pod: PodInfo, record: NodeRecord) -> bool:
    """Tell whether a node satisfies nodeSelector and one of the required terms, if any."""
    if any(record.labels.get(k) != v for k, v in pod.node_selector.items()):
        return False
    affinity = pod.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(term_holds(t, record) for t in affinity.required.node_selector_terms)


def preferred_node_affinity(pod: PodInfo, record: NodeRecord) -> int:
    """Add the weights of the preferred terms that hold."""
    preferred = pod.node_affinity.preferred if pod.node_affinity else ()
    return sum(p.weight for p in preferred if term_holds(p.preference, record))


def has_required_node_affinity(pod: PodInfo) -> bool:
    """Tell whether anything is required of a node."""
    affinity = pod.node_affinity
    return bool(pod.node_selector) or (affinity is not None and affinity.required is not None)


def required_node_names(pod: PodInfo) -> Optional:
    """Return the nodes that every required term names, if every term does."""
    affinity = pod.node_affinity
    if affinity is None or affinity.required is None:
        return ABSENT
    names: set[str] = set()
    for term in affinity.required.node_selector_terms:
        named = [
            set(r.values)
            for r in term.match_fields
            if r.key == "metadata.name" and r.operator == "In"
        ]
        if not named:
            return ABSENT
        names |= set.intersection(*named)
    return some(sorted(names)) if affinity.required.node_selector_terms else ABSENT


def affinity_of(raw: Mapping[str, Any]) -> meta.NodeAffinity:
    """Read a node affinity as it stands in params; an empty one has no terms."""
    return msgspec.convert(raw or {}, meta.NodeAffinity)


def matches_affinity(record: NodeRecord, raw: Mapping[str, Any]) -> bool:
    """Tell whether one of the required terms of an affinity holds; none asked is met."""
    required = affinity_of(raw).required
    return required is None or any(term_holds(t, record) for t in required.node_selector_terms)


def affinity_preference(record: NodeRecord, raw: Mapping[str, Any]) -> int:
    """Add the weights of an affinity's preferred terms that hold."""
    return sum(p.weight for p in affinity_of(raw).preferred if term_holds(p.preference, record))


def selector(text: str) -> tuple[meta.NodeSelectorRequirement, ...]:
    """Read a label selector: ``a in (b,c),!d,e,f=g,h!=i``."""
    requirements = []
    for part in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
        if found := re.fullmatch(r"\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*", part):
            values = tuple(v.strip() for v in found[3].split(","))
            operator = "In" if found[2] == "in" else "NotIn"
        elif found := re.fullmatch(r"\s*([^\s=!]+)\s*(==|=|!=)\s*(\S*)\s*", part):
            values, operator = (found[3],), "NotIn" if found[2] == "!=" else "In"
        elif found := re.fullmatch(r"\s*!?\s*([^\s=!]+)\s*", part):
            values, operator = (), "DoesNotExist" if "!" in part else "Exists"
        else:
            raise OracleError("conversion")
        requirements.append(meta.NodeSelectorRequirement(found[1], operator, values))
    return tuple(requirements)


def fits_in(
    wanted: Resources,
    room: Resources,
    names: list[str] | None = None,
    groups: list[str] | None = None,
) -> bool:
    """Tell whether every amount above zero is within the room, some names left aside."""
    return all(
        amount <= room.get(name, 0)
        for name, amount in wanted.items()
        if amount > 0
        and not (
            is_extended(name) and (name in (names or ()) or name.split("/")[0] in (groups or ()))
        )
    )


def fits_limit(wanted: Resources, limit: Resources, _missing: str) -> bool:
    """Tell whether what a limit names is enough for every amount above zero."""
    return not any(
        wanted[name] > 0 and wanted[name] > most for name, most in limit.items() if name in wanted
    )


def each_amount(a: Resources, b: Resources, join: Callable[[int, int], int]) -> Resources:
    """Join the amounts of two, 0 where one has none; beyond int64 is an error."""
    joined = Resources()
    for name in [*a, *b]:
        joined[name] = join(a.get(name, 0), b.get(name, 0))
        if not -(2**63) <= joined[name] < 2**63:
            raise OracleError("overflow")
    return joined


def resources_of(named: list[str], amounts: list[Any]) -> Resources:
    """Add amounts without a unit by the names of resources, each rounded up to its unit."""
    whole = Resources()
    for name, amount in zip(named, amounts, strict=True):
        units = Quantity(amount.amount, dimension_of(name)).units
        whole[name] = quantity_of_units(whole.get(name, 0) + units, dimension_of(name)).units
    return whole


def names(whole: Resources) -> list[str]:
    """Return resource names in kube's order of reasons: three first, then the others sorted."""
    first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in whole]
    return first + sorted(whole.keys() - set(first))


def is_scalar(name: str) -> bool:
    """Tell whether a resource is extended, huge pages or an attachable volume."""
    return name.startswith(SCALAR_PREFIXES) or is_extended(name)


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended one: of a domain that is not Kubernetes'."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def conflicts(left: meta.HostPort, right: meta.HostPort) -> bool:
    """Tell whether two ports overlap: same number and protocol, on one or on all addresses."""
    return (left.protocol, left.port) == (right.protocol, right.port) and (
        left.ip == right.ip or "0.0.0.0" in {left.ip, right.ip}
    )


def stable_hash(text: str, buckets: int | None = None) -> int:
    """Return FNV-1a of 64 bits without its sign bit; modulo the number of buckets."""
    word = FNV_OFFSET
    for byte in text.encode():
        word = (word ^ byte) * FNV_PRIME & (2**64 - 1)
    word &= 2**63 - 1
    if buckets is None:
        return word
    if buckets <= 0:
        raise OracleError("divide_by_zero" if buckets == 0 else "conversion")
    return word % buckets


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "taint_string_string_string": meta.Taint,
    "tolerates_pod_taint": tolerates,
    "matchesNodeAffinity_pod_node": matches_node_affinity,
    "preferredNodeAffinity_pod_node": preferred_node_affinity,
    "hasRequiredNodeAffinity_pod": has_required_node_affinity,
    "hasPreferredNodeAffinity_pod": lambda p: bool(p.node_affinity and p.node_affinity.preferred),
    "requiredNodeNames_pod": required_node_names,
    "matchesAffinity_node_raw": matches_affinity,
    "affinityPreference_node_raw": affinity_preference,
    "hasPreferredTerms_raw": lambda raw: bool(affinity_of(raw).preferred),
    "selector_string": selector,
    "matches_selector_map": lambda s, labels: all(requirement_holds(r, labels) for r in s),
    "fitsIn_resources_resources": fits_in,
    "fitsIn_resources_resources_list": fits_in,
    "fitsIn_resources_resources_list_list": fits_in,
    "fitsIn_resources_resources_string": fits_limit,
    "add_resources_resources": lambda a, b: each_amount(a, b, lambda x, y: x + y),
    "sub_resources_resources": lambda a, b: each_amount(a, b, lambda x, y: x - y),
    "mul_resources_int": lambda a, n: each_amount(a, {}, lambda x, _: x * n),
    "max_resources_resources": lambda a, b: each_amount(a, b, max),
    "min_resources_resources": lambda a, b: each_amount(a, b, min),
    "resources_list_list": resources_of,
    "names_resources": names,
    "isScalarResource_string": is_scalar,
    "isExtendedResource_string": is_extended,
    "height_quota_resources": oracle_world.height,
    "lacking_quota_resources": oracle_world.lacking,
    "reaches_quota_resources": oracle_world.reaches,
    "without_quota_resources": oracle_world.without_request,
    "with_quota_resources": oracle_world.with_request,
    "conflicts_hostport_hostport": conflicts,
    "stableHash_string": stable_hash,
    "stableHash_string_int": stable_hash,
}
