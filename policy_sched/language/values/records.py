"""Nodes and placement domains as records: what rules read of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched import model
from policy_sched.cluster.tables import NodeView, names_of, sum_of

#: Names of attributes that are not the field's name in snake case.
_ATTRIBUTES: Final = {
    ("Head", "requests"): "info.requests",
    ("Head", "priority"): "info.priority",
    ("Head", "creationTime"): "info.creation_time",
    ("Pod", "ownerUID"): "owner_uid",
    ("Pod", "podGroup"): "pod_group",
    ("Condition", "lastTransitionTime"): "transition_time",
    ("Namespace", "name"): "metadata.name",
    ("Namespace", "labels"): "metadata.labels",
    ("Namespace", "annotations"): "metadata.annotations",
}
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(record: str, name: str) -> str:
    """Return the Python attribute of a record's field."""
    return _ATTRIBUTES.get((record, name)) or _SNAKE.sub("_", name).lower()


class QualifiedNames(dict[str, Any]):
    """Values by name, where a name without a domain is one of the driver's domain.

    So ``model`` and ``gpu.example.com/model`` are one name if the driver is gpu.example.com.
    """

    __slots__ = ("_domain",)

    def __init__(self, driver: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._domain = f"{driver}/"

    def _other(self, name: object) -> str:
        """Return the other spelling of a name, "" if there is none."""
        if not isinstance(name, str):
            return ""
        if "/" not in name:
            return self._domain + name
        return name[len(self._domain) :] if name.startswith(self._domain) else ""

    def __contains__(self, name: object) -> bool:
        """Return whether there is a value of a name, however it is spelled."""
        return super().__contains__(name) or super().__contains__(self._other(name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, however it is spelled, else ``default``."""
        if super().__contains__(name):
            return super().__getitem__(name)
        return super().get(self._other(name), default)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a name, however it is spelled."""
        return super().__getitem__(name if super().__contains__(name) else self._other(name))

    def __reduce__(self) -> tuple[type[QualifiedNames], tuple[str, dict[str, Any]]]:
        """Pickle the values with the driver."""
        return QualifiedNames, (self._domain[:-1], dict(self))


class AttributeFacts(msgspec.Struct, frozen=True):
    """An attribute of a device; one of the fields has its value, the others are zero."""

    string: str = ""
    int: int = 0
    bool: bool = False
    version: str = ""


class DeviceFacts(msgspec.Struct, frozen=True, eq=False):
    """A device on a node. Amounts are in scheduler units, by name of the capacity.

    ``index`` is its place in the order in which kube-scheduler tries the node's devices.
    """

    driver: str = ""
    pool: str = ""
    name: str = ""
    index: int = 0
    attributes: Mapping[str, AttributeFacts] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, int] = msgspec.field(default_factory=dict)
    free: Mapping[str, int] = msgspec.field(default_factory=dict)
    consumed: Mapping[str, int] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool = False
    allocated: bool = False
    shares: int = 0
    taints: tuple[model.Taint, ...] = ()


class RequestFacts(msgspec.Struct, frozen=True, eq=False):
    """A request of a claim for devices; ``count`` is 0 where it asks for all of them."""

    name: str = ""
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool = False
    capacity: Mapping[str, int] = msgspec.field(default_factory=dict)


class AllocatedDeviceFacts(msgspec.Struct, frozen=True, eq=False):
    """A device that a request would get, with its score."""

    request: str = ""
    device: DeviceFacts = DeviceFacts()
    score: float = 0.0
    consumed_capacity: Mapping[str, int] = msgspec.field(default_factory=dict)


class AllocationFacts(msgspec.Struct, frozen=True, eq=False):
    """What the pod's claims would get on a node."""

    devices: tuple[AllocatedDeviceFacts, ...] = ()

    @property
    def score(self) -> float:
        """The sum of their scores."""
        return sum((device.score for device in self.devices), 0.0)


NO_DEVICE: Final = DeviceFacts()
NO_REQUEST: Final = RequestFacts()
NO_ALLOCATION: Final = AllocationFacts()


class ImageFacts(msgspec.Struct, frozen=True):
    """An image of a node: its size, and how many nodes have it."""

    size_bytes: int = 0
    num_nodes: int = 0


class NodeFacts:
    """The fields that rules read of a node: the API object, and what runs on it now.

    The attributes are the fields of the record `Node` under their Python names. Without a table, or
    if the table does not know the node, nothing runs on it.
    """

    def __init__(self, node: model.Node, table: NodeView | None = None) -> None:
        meta, info = node.metadata, node.status.node_info
        self._table = table
        self.name = meta.name
        self.labels = meta.labels
        self.annotations = meta.annotations
        self.taints: tuple[model.Taint, ...] = node.spec.taints
        self.unschedulable = node.spec.unschedulable
        self.ready = node.ready
        self.conditions: tuple[model.Condition, ...] = node.status.conditions
        self.provider_id = node.spec.provider_id
        self.architecture = info.architecture
        self.operating_system = info.operating_system
        self.os_image = info.os_image
        self.kernel_version = info.kernel_version
        self.kubelet_version = info.kubelet_version
        self.runtime_version = info.container_runtime_version
        self.declared_features: tuple[str, ...] = node.status.declared_features
        self.creation_time = model.nanoseconds(meta.creation_timestamp)
        self.object = node

    @cached_property
    def capacity(self) -> dict[str, int]:
        """What the node has, in scheduler units."""
        return _amounts(self.object.status.capacity)

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """What pods may use of it, in scheduler units."""
        return _amounts(self.object.status.allocatable)

    @cached_property
    def images(self) -> dict[str, ImageFacts]:
        """Its images by name."""
        table = self._table
        states = {} if table is None else table.images.states
        count = (lambda _name: 1) if table is None else table.image_nodes
        return {
            name: ImageFacts(states[name].size if name in states else size, count(name))
            for name, size in names_of(self.object)
        }

    @cached_property
    def pods(self) -> tuple[model.PodInfo, ...]:
        """The pods on it."""
        row = None if self._table is None else self._table.row_of.get(self.name)
        if self._table is None or row is None:
            return ()
        return tuple(self._table.pods_on(row).values())

    @property
    def pod_count(self) -> int:
        """The number of pods on it."""
        return len(self.pods)

    @cached_property
    def requested(self) -> dict[str, int]:
        """What its pods request."""
        return _sum(pod.requests for pod in self.pods)

    @cached_property
    def non_zero_requested(self) -> dict[str, int]:
        """What its pods count for in scoring."""
        return _sum(pod.non_zero_added for pod in self.pods)

    @property
    def device_allocatable(self) -> dict[str, int]:
        """How many devices serve each extended resource that device classes serve."""
        return self._of_devices("deviceAllocatable")

    @property
    def device_requested(self) -> dict[str, int]:
        """How many of them are in use."""
        return self._of_devices("deviceRequested")

    def _of_devices(self, family: str) -> dict[str, int]:
        if self._table is None:
            return {}
        table = self._table.table
        names = sorted(table.devices.resources)
        return {name: table.devices.amount(family, name, self.object) for name in names}

    @property
    def devices(self) -> Sequence[DeviceFacts]:
        """Its devices, in the order in which they are tried."""
        return () if self._table is None else self._table.table.devices.facts_of(self.object)

    @property
    def free(self) -> dict[str, int]:
        """What may be used less what is requested; may be below zero."""
        names = {**self.allocatable, **self.requested}
        requested = self.requested
        return {name: self.allocatable.get(name, 0) - requested.get(name, 0) for name in names}

    @property
    def used_ports(self) -> tuple[model.HostPort, ...]:
        """Host ports in use, each once."""
        return tuple(dict.fromkeys(port for pod in self.pods for port in pod.host_ports))


def _amounts(amounts: Mapping[str, model.Amount]) -> dict[str, int]:
    return {name: model.units(name, amount) for name, amount in amounts.items()}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            whole[name] = whole.get(name, 0) + amount
    return whole


NO_NODE: Final = NodeFacts(model.Node(metadata=model.ObjectMeta(name="")))
"""A node without any content."""


class PlacementFacts:
    """The record `Placement` under its Python names, computed from the table when read.

    ``rows``: the domain's nodes, shape (k,). ``assigned``: the group's pods in it.
    """

    def __init__(
        self,
        domain: str,
        rows: npt.NDArray[np.intp],
        assigned: tuple[model.PodInfo, ...] = (),
        table: NodeView | None = None,
        level: int = 0,
    ) -> None:
        self.domain = domain
        self.level = level
        self.assigned = assigned
        self._rows = rows
        self._table = table

    @cached_property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Its nodes."""
        table = self._table
        if table is None:
            return ()
        facts = (table.nodes[row] for row in self._rows.tolist())
        return tuple(NodeFacts(node, table) for node in facts if node is not None)

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """What pods may use of its nodes, in scheduler units."""
        return self._sums("allocatable")

    @cached_property
    def requested(self) -> dict[str, int]:
        """What the pods on its nodes request."""
        return self._sums("requested")

    @property
    def free(self) -> dict[str, int]:
        """What may be used less what is requested; may be below zero."""
        return self._sums("free")

    def _sums(self, family: str) -> dict[str, int]:
        table = self._table
        if table is None:
            return {}
        names = {
            name
            for row in self._rows.tolist()
            if (node := table.nodes[row]) is not None
            for name in node.status.allocatable
        }
        return {
            name: sum_of(table.lookup((family, name)).values[self._rows]) for name in sorted(names)
        }


NOWHERE: Final = PlacementFacts("", np.zeros(0, np.intp))
"""No domain at all."""
