"""The oracle's view of a cluster: records read straight from API objects, without any column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from policy_sched.cluster.tables.quotas import WHOLE, Grant
from policy_sched.model.cluster_objects import Namespace, Node
from policy_sched.model.meta import nanoseconds
from policy_sched.model.pod_group import NO_GROUP, GroupCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.quantity import units
from tests.cluster.tables.quota_model import Model, Place

from .oracle_values import OracleError, Quantity, quantity_of_units

BYTES: Final = ("memory", "ephemeral-storage")
SYSTEM_FIELDS: Final = {
    "architecture": "architecture",
    "operatingSystem": "operating_system",
    "osImage": "os_image",
    "kernelVersion": "kernel_version",
    "kubeletVersion": "kubelet_version",
    "runtimeVersion": "container_runtime_version",
}

#: The quotas of a world; a pod's is that of its namespace, and not all have one.
GRANTS: Final = {
    "a": Grant(
        {"cpu": 2000, "memory": 2**30}, borrows={"cpu": 4000}, parent="team", weight=WHOLE // 2
    ),
    "b": Grant(
        {"cpu": 1000, "example.com/gpu": 2},
        {"cpu": 9000},
        lends={"cpu": 400},
        parent="team",
        priority=3,
    ),
    "team": Grant({"cpu": 3000}),
}


class Resources(dict[str, int]):
    """Scheduler units by resource name; a name that is absent counts as 0."""

    def amount(self, name: str) -> Quantity:
        """Return the quantity of one resource."""
        return quantity_of_units(self.get(name, 0), dimension_of(name))


def dimension_of(name: str) -> str:
    """Return what a resource is counted in."""
    if name == "cpu":
        return "cpu"
    return "bytes" if name in BYTES or name.startswith("hugepages-") else "count"


@dataclass(slots=True)
class World:
    """A cluster: nodes by row, the pods on each by the node's name, namespaces, and the time.

    ``group`` is that of the pod to be scheduled.
    """

    nodes: list[Node]
    pods: list[PodInfo]
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    now: int = 0
    group: GroupCounts = NO_GROUP

    def pods_on(self, name: str) -> list[PodInfo]:
        """Return the pods bound to one node."""
        return [p for p in self.pods if p.node_name == name]

    def numbers_of_images(self) -> Counter[str]:
        """Return how many nodes hold each image name."""
        return Counter(
            name for node in self.nodes for name in {n for i in node.status.images for n in i.names}
        )


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of a world, as `node` is in an expression."""

    world: World
    node: Node

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return dict(self.node.metadata.labels)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The variable `cluster`."""

    world: World


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """The variable `namespaceObject`; one that the cluster does not know has only its name."""

    world: World
    name: str


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """A quota of a world; ``requests`` count at their quotas besides the pods."""

    world: World
    pod: PodInfo
    place: Place
    requests: tuple[tuple[str, Resources], ...] = ()

    @property
    def exists(self) -> bool:
        """Whether anything is granted."""
        return self.place.key in GRANTS

    @property
    def model(self) -> Model:
        """All quotas, without the pod that is decided."""
        counted = [p for p in self.world.pods if p.uid != self.pod.uid]
        used = [(p.namespace, p.requests) for p in counted]
        return Model([GRANTS], [*used, *self.requests], caps=False)


@dataclass(frozen=True, slots=True)
class DomainRecord:
    """Nodes of a world that share one label's value."""

    value: str
    nodes: tuple[NodeRecord, ...]


def total(parts: Iterable[Resources]) -> Resources:
    """Add resources name by name."""
    whole = Resources()
    for part in parts:
        for name, amount in part.items():
            whole[name] = whole.get(name, 0) + amount
    return whole


def amounts(written: dict[str, Any]) -> Resources:
    """Return resources as written on a node, in scheduler units."""
    return Resources({name: units(name, str(text)) for name, text in written.items()})


def node_field(record: NodeRecord, name: str) -> Any:
    """Return a field of `node`."""
    node, meta = record.node, record.node.metadata
    if name in SYSTEM_FIELDS:
        return getattr(node.status.node_info, SYSTEM_FIELDS[name])
    match name:
        case "name":
            return meta.name
        case "labels" | "annotations":
            return dict(getattr(meta, name))
        case "taints":
            return list(node.spec.taints)
        case "unschedulable" | "ready":
            return node.spec.unschedulable if name == "unschedulable" else node.ready
        case "providerID":
            return node.spec.provider_id
        case "conditions":
            return list(node.status.conditions)
        case "creationTime":
            return nanoseconds(meta.creation_timestamp)
        case "declaredFeatures":
            return list(node.status.declared_features)
        case "capacity" | "allocatable":
            return amounts(getattr(node.status, name))
        case "images":
            return _images(record)
    return _usage(record, name)


def _images(record: NodeRecord) -> dict[str, dict[str, int]]:
    """Return a node's images by name; as in kube, the first node to have one gives its size."""
    counts = record.world.numbers_of_images()
    sizes: dict[str, int] = {}
    for node in record.world.nodes:
        for image in node.status.images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
    return {
        name: {"sizeBytes": sizes[name], "numNodes": counts[name]}
        for image in record.node.status.images
        for name in image.names
    }


def _usage(record: NodeRecord, name: str) -> Any:
    pods = record.world.pods_on(record.node.metadata.name)
    match name:
        case "pods":
            return pods
        case "podCount":
            return len(pods)
        case "deviceAllocatable" | "deviceRequested":
            return Resources()  # the worlds have no device classes
        case "devices":
            return []
        case "usedPorts":
            ports = {port for pod in pods for port in pod.host_ports}
            return sorted(ports, key=lambda port: (port.ip, port.protocol, port.port))
        case "requested":
            return total(Resources(p.requests) for p in pods)
        case "nonZeroRequested":
            return total(Resources(p.non_zero_requests) for p in pods)
        case "free":
            return free(amounts(record.node.status.allocatable), node_field(record, "requested"))
    raise AssertionError(name)


def free(allocatable: Resources, requested: Resources) -> Resources:
    """Return allocatable less requested."""
    return total([allocatable, Resources({n: -v for n, v in requested.items()})])


def pod_field(pod: PodInfo, name: str) -> Any:
    """Return a field of a pod: that of `PodInfo` under its Python name."""
    value = getattr(pod, re.sub(r"(?<=[a-z])([A-Z]+)", r"_\1", name).lower())
    if name in {"requests", "nonZeroRequests", "limits", "overhead"}:
        return Resources(value)
    return list(value) if isinstance(value, tuple) else value


def group_field(group: GroupCounts, name: str) -> Any:
    """Return a field of `podGroup`."""
    value = getattr(group, re.sub(r"(?<=[a-z])([A-Z]+)", r"_\1", name).lower())
    return Resources(value) if name in {"requested", "minResources"} else value


def namespace_field(record: NamespaceRecord, name: str) -> Any:
    """Return a field of `namespaceObject`."""
    if name == "name":
        return record.name
    known = record.world.namespaces.get(record.name)
    return dict(getattr(known.metadata, name)) if known else {}


def cluster_field(record: ClusterRecord, name: str) -> Any:
    """Return a field of `cluster`."""
    if name == "deviceResources":
        return []  # the worlds have no device classes
    nodes = [NodeRecord(record.world, node) for node in record.world.nodes]
    return domain_field(DomainRecord("", tuple(nodes)), name)


def domain_field(record: DomainRecord, name: str) -> Any:
    """Return a field of a domain: sums over its nodes."""
    match name:
        case "value":
            return record.value
        case "nodeCount":
            return len(record.nodes)
        case "nodes":
            return list(record.nodes)
        case "podCount":
            return sum(node_field(n, "podCount") for n in record.nodes)
        case "pods":
            return [pod for n in record.nodes for pod in node_field(n, "pods")]
        case _:
            return total(node_field(n, name) for n in record.nodes)


def domain(record: NodeRecord, key: str) -> DomainRecord:
    """Return the domain of a node; a node without the label has none, which is an error."""
    if key not in record.labels:
        raise OracleError("no_such_key")
    return next(d for d in domains(record.world, key) if d.value == record.labels[key])


def domains(world: World, key: str) -> list[DomainRecord]:
    """Return all domains of a label in the order of their values."""
    groups: dict[str, list[NodeRecord]] = {}
    for node in world.nodes:
        record = NodeRecord(world, node)
        if key in record.labels:
            groups.setdefault(record.labels[key], []).append(record)
    return [DomainRecord(value, tuple(groups[value])) for value in sorted(groups)]


def quota_of(world: World, pod: PodInfo) -> QuotaRecord:
    """Return the variable `quota`."""
    return QuotaRecord(world, pod, Place(0, pod.namespace))


def quota_field(record: QuotaRecord, name: str) -> Any:
    """Return a field of a quota; without an object it is empty."""
    model, place = record.model, record.place
    grant = model.grant(place)
    match name:
        case "name":
            return place.key if record.exists else ""
        case "exists":
            return record.exists
        case "path":
            return [replace(record, place=p) for p in model.up(place)] if record.exists else []
        case "priority":
            return grant.priority
        case "weight":
            return grant.weight / WHOLE
        case "limit":
            return Resources(grant.limit)
        case "share":
            return model.share(place)
        case "saturation":
            fair = quota_field(record, "fair")
            used = quota_field(record, "used").items()
            return max((n / fair[r] if fair.get(r) else inf for r, n in used if n > 0), default=0.0)
        case "dominant":
            whole = cluster_field(ClusterRecord(record.world), "allocatable")
            used = quota_field(record, "used").items()
            return max((n / whole[r] for r, n in used if whole.get(r, 0) > 0), default=0.0)
    return _quota_amounts(record, model, name)


def _quota_amounts(record: QuotaRecord, model: Model, name: str) -> Resources:
    """Return amounts by the resources that they are known of."""
    place, before = record.place, replace(record, requests=()).model
    names = model.names()
    match name:
        case "used" | "nominal" | "demand" | "fair":  # no pod of a world is queued
            value = model.used if name == "demand" else getattr(model, name)
            amounts = {r: value(place, r) for r in names}
            return Resources({r: n for r, n in amounts.items() if n})
        case "borrowed":
            beyond = {r: model.used(place, r) - model.nominal(place, r) for r in names}
            return Resources({r: n for r, n in beyond.items() if n > 0})
        case "available":
            way = model.up(place)
            values = (model.nominal, model.used, before.used)
            named = [r for r in names if any(value(p, r) for p in way for value in values)]
            return Resources({r: model.available(place, r) for r in named})
    raise AssertionError(name)


def height(record: QuotaRecord, request: Resources) -> int:
    """Return how far up a request borrows."""
    wanted = {r: n for r, n in request.items() if n > 0}
    return record.model.height(record.place, wanted)


def lacking(record: QuotaRecord, request: Resources) -> Resources:
    """Return what a request does not get."""
    room = quota_field(record, "available")
    rest = {r: n - max(0, room.get(r, 0)) for r, n in request.items()}
    return Resources({r: n for r, n in rest.items() if n > 0})


def reaches(record: QuotaRecord, request: Resources) -> QuotaRecord:
    """Return the quota, or the ancestor, that holds a request."""
    if not record.exists:
        return record
    wanted = {r: n for r, n in request.items() if n > 0}
    return replace(record, place=record.model.reaches(record.place, wanted))


def without_request(record: QuotaRecord, request: Resources) -> QuotaRecord:
    """Return a quota as if so much less were used."""
    return with_request(record, Resources({r: -n for r, n in request.items()}))


def with_request(record: QuotaRecord, request: Resources) -> QuotaRecord:
    """Return a quota as if a request counted, too."""
    if not record.exists:
        return record
    return replace(record, requests=(*record.requests, (record.place.key, request)))
