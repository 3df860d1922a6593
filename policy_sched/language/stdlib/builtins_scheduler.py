"""Builtins of the scheduler's values: tolerations, ports, resources, selectors, hashes.

A method of the pod takes the part of the pod that it reads, so that the read set shows it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.language import values
from policy_sched.language.runtime import int64
from policy_sched.language.stdlib.builtins_quantity import scale_of_resource, units_in

_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_LEAST, _GREATEST = values.INT_MIN, values.INT_MAX
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def tolerates(tolerations: Sequence[model.Toleration], taint: model.Taint) -> bool:
    """Return whether one of the tolerations tolerates the taint."""
    key, value, effect = taint.key, taint.value, taint.effect
    for toleration in tolerations:  # noqa: SIM110  # any() costs twice as much
        if toleration.tolerates(key, value, effect):
            return True
    return False


def make_taint(key: str, value: str, effect: str) -> model.Taint:
    """Return a taint."""
    return model.Taint(key=key, value=value, effect=effect)


def fits(wanted: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Return whether every amount above zero is within the room."""
    for name, n in wanted.items():  # noqa: SIM110  # all() costs twice as much
        if 0 < n > room.get(name, 0):
            return False
    return True


UNLIMITED: Final = "unlimited"
"""What fitsIn takes for resources that have no limit where they are not named."""


def fits_limit(wanted: Mapping[str, int], limit: Mapping[str, int], _missing: str) -> bool:
    """Return whether every amount above zero is within its limit; what is not named has none."""
    for name, n in wanted.items():  # noqa: SIM110  # as above
        if 0 < n > limit.get(name, n):
            return False
    return True


def _merged(function: Callable[[int, int], int]) -> Callable[..., dict[str, int]]:
    """Return what joins two maps of amounts, each amount by a function; fault: overflow."""

    def merged(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
        amounts = {**a, **b}
        for name in amounts:
            amounts[name] = amount = function(a.get(name, 0), b.get(name, 0))
            if not values.INT_MIN <= amount <= values.INT_MAX:
                raise values.Fault(values.OVERFLOW)
        return amounts

    return merged


def added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of amounts; fault: overflow. For speed: only those of ``b`` change."""
    amounts = dict(a)
    for name, more in b.items():
        amounts[name] = amount = amounts.get(name, 0) + more
        if not _LEAST <= amount <= _GREATEST:
            raise values.Fault(values.OVERFLOW)
    return amounts


def _times(amounts: Mapping[str, int], number: int) -> dict[str, int]:
    return {name: int64(amount * number) for name, amount in amounts.items()}


def resources_of(names: Sequence[str], amounts: Sequence[Fraction]) -> dict[str, int]:
    """Return amounts by resource, in its units; those of one name are added. Fault: overflow."""
    whole: dict[str, int] = {}
    for name, amount in zip(names, amounts, strict=True):
        whole[name] = int64(whole.get(name, 0) + units_in(amount, scale_of_resource(name)))
    return whole


def without(
    wanted: Mapping[str, int], names: Collection[str], groups: Collection[str] = ()
) -> dict[str, int]:
    """Return amounts without extended resources of some names or domains (upstream's rule)."""
    return {
        name: n
        for name, n in wanted.items()
        if not (is_extended_resource(name) and _ignored(name, names, groups))
    }


def _ignored(name: str, names: Collection[str], groups: Collection[str]) -> bool:
    return name in names or name.split("/", 1)[0] in groups


def ports_conflict(wanted: model.HostPort, used: model.HostPort) -> bool:
    """Return whether two pods cannot hold both on one node; a method cannot be kept by its name."""
    return wanted.conflicts(used)


def resource_names(amounts: Collection[str]) -> list[str]:
    """Return names in the order of kube-scheduler's reasons: its own three, then the others."""
    return [n for n in _FIRST if n in amounts] + sorted(set(amounts).difference(_FIRST))


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is one that a device plugin advertises (upstream's rule)."""
    if "/" not in name or "kubernetes.io/" in name:
        return False
    return not name.startswith("requests.")


def is_scalar_resource(name: str) -> bool:
    """Return whether a resource is extended, huge pages or an attachable volume."""
    return name.startswith(("hugepages-", "attachable-volumes-")) or is_extended_resource(name)


def selector(text: str) -> model.Selector:
    """Read a label selector such as "a in (b, c), !d"; fault: conversion."""
    try:
        return model.parse_selector(text)
    except ValueError:
        raise values.Fault(values.CONVERSION) from None


def stable_hash(text: str) -> int:
    """Return FNV-1a of 64 bits of the text's UTF-8, without its sign bit."""
    digest = _FNV_OFFSET
    for byte in text.encode():
        digest = (digest ^ byte) * _FNV_PRIME % 2**64
    return digest & (2**63 - 1)


def _bucket(text: str, buckets: int) -> int:
    if buckets <= 0:
        raise values.Fault(values.CONVERSION if buckets else values.DIVIDE_BY_ZERO)
    return stable_hash(text) % buckets


def affinity_of(raw: object) -> model.NodeAffinity | None:
    """Return a node affinity as the API writes it; None if it is empty.

    Raises msgspec.ValidationError if it is not an affinity.
    """
    return msgspec.convert(raw, model.NodeAffinity) if raw else None


def read_affinity(raw: object) -> model.NodeAffinity | None:
    """Do as `affinity_of`; fault: conversion."""
    try:
        return affinity_of(raw)
    except msgspec.ValidationError:
        raise values.Fault(values.CONVERSION) from None


def node_matches(
    affinity: model.NodeAffinity | None,
    selector: Mapping[str, str],
    labels: Mapping[str, str],
    name: str,
) -> bool:
    """Return whether a node has all labels of ``selector`` and meets what is required."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return model.node_matcher(affinity).required_matches(labels, name)


def preference(affinity: model.NodeAffinity | None, labels: Mapping[str, str], name: str) -> int:
    """Return the sum of the weights of the preferred terms that a node matches."""
    return model.node_matcher(affinity).preferred_score(labels, name)


def has_preferred(affinity: model.NodeAffinity | None) -> bool:
    """Return whether an affinity has preferred terms that can score."""
    return bool(affinity and affinity.preferred)


def has_required(affinity: model.NodeAffinity | None, node_selector: Mapping[str, str]) -> bool:
    """Return whether a pod requires anything of its node."""
    return bool(node_selector) or model.node_matcher(affinity).has_required


def required_names(affinity: model.NodeAffinity | None) -> values.Some | None:
    """Return the only nodes that required terms allow, in order, or none."""
    names = model.required_node_names(affinity)
    return None if names is None else values.Some(sorted(names))


TOTAL: Final[dict[str, Callable[..., Any]]] = {
    "taint_string_string_string": make_taint,
    "conflicts_hostport_hostport": ports_conflict,
    "fitsIn_resources_resources": fits,
    "fitsIn_resources_resources_list": lambda a, b, names: fits(without(a, names), b),
    "fitsIn_resources_resources_list_list": lambda a, b, names, groups: fits(
        without(a, names, groups), b
    ),
    "fitsIn_resources_resources_string": fits_limit,
    "max_resources_resources": _merged(max),
    "min_resources_resources": _merged(min),
    "names_resources": resource_names,
    "height_quota_resources": lambda quota, request: quota.height(request),
    "reaches_quota_resources": lambda quota, request: quota.reaches(request),
    "lacking_quota_resources": lambda quota, request: quota.lacking(request),
    "without_quota_resources": lambda quota, request: quota.without_request(request),
    "with_quota_resources": lambda quota, request: quota.with_request(request),
    "isScalarResource_string": is_scalar_resource,
    "isExtendedResource_string": is_extended_resource,
    "matches_selector_map": model.Selector.matches,
    "stableHash_string": stable_hash,
}
PARTIAL: Final[dict[str, Callable[..., Any]]] = {
    "selector_string": selector,
    "stableHash_string_int": _bucket,
    "resources_list_list": resources_of,
    "add_resources_resources": added,
    "sub_resources_resources": _merged(operator.sub),
    "mul_resources_int": _times,
}
