"""Reads the value of each static node column out of a Node object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from msgspec.structs import replace

from policy_sched.cluster.tables.interning import Sets, Strings
from policy_sched.cluster.tables.schema import MAX_TIME, Key
from policy_sched.model import Amount, Node, Taint, nanoseconds, units

Reader: TypeAlias = Callable[[Node], int]
"""The value of one static column for a node."""

_FIELDS: Final[dict[str, Callable[[Node], str]]] = {
    "providerID": lambda node: node.spec.provider_id,
    "architecture": lambda node: node.status.node_info.architecture,
    "operatingSystem": lambda node: node.status.node_info.operating_system,
    "osImage": lambda node: node.status.node_info.os_image,
    "kernelVersion": lambda node: node.status.node_info.kernel_version,
    "kubeletVersion": lambda node: node.status.node_info.kubelet_version,
    "runtimeVersion": lambda node: node.status.node_info.container_runtime_version,
}


def reader(key: Key, strings: Strings, taint_sets: Sets[Taint]) -> Reader:
    """Return the function that reads the static column ``key``, images excepted, from a node."""
    code = strings.code
    match key:
        case ("name",):
            return lambda node: code(node.metadata.name)
        case ("label", name):
            return lambda node: _coded(code, node.metadata.labels.get(name))
        case ("annotation", name):
            return lambda node: _coded(code, node.metadata.annotations.get(name))
        case ("field", name):
            field = _FIELDS[name]
            return lambda node: code(field(node))
        case ("unschedulable",):
            return lambda node: node.spec.unschedulable
        case ("ready",):
            return lambda node: node.ready
        case ("creationTime",):
            return lambda node: time_value(node.metadata.creation_timestamp)
        case ("taints",):
            return lambda node: taint_sets.set_id(node.spec.taints)
        case ("allocatable", resource):
            return lambda node: _amount(resource, node.status.allocatable)
        case ("allocatable?", resource):
            return lambda node: resource in node.status.allocatable
        case ("capacity", resource):
            return lambda node: _amount(resource, node.status.capacity)
    raise KeyError(f"no static node column {key!r}")


def visible(node: Node) -> tuple[object, ...]:
    """Return what of a node can change a decision: all but heartbeats and book-keeping."""
    meta, status = node.metadata, node.status
    return (
        meta.labels,
        meta.annotations,
        meta.creation_timestamp,
        node.spec,
        status.allocatable,
        status.capacity,
        status.images,
        status.node_info,
        status.declared_features,
        [(c.type, c.status, c.reason, c.last_transition_time) for c in status.conditions],
        meta.owner_references,
        meta.deletion_timestamp,
        # What only rules read, where they do: the struct has fields for it then.
        (status, replace(meta, resource_version="")) if type(node) is not Node else None,
    )


def _coded(code: Callable[[str], int], text: str | None) -> int:
    return 0 if text is None else code(text)


def time_value(time: datetime | None) -> int:
    """Return a time as columns hold it: ns since 1970, 0 for none, within 1970 to 2262."""
    return min(max(nanoseconds(time), 0), MAX_TIME)


def _amount(resource: str, amounts: Mapping[str, Amount]) -> int:
    amount = amounts.get(resource)
    return 0 if amount is None else max(units(resource, amount), 0)
