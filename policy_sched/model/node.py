"""Nodes, decoded straight from API JSON: the fields that scheduling reads."""

from __future__ import annotations

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, ApiValue, Int64
from policy_sched.model.quantity import Amount
from policy_sched.model.records import Condition, Taint


class NodeSpec(ApiStruct):
    """What an administrator says of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = field(default="", name="providerID")


class ContainerImage(ApiValue, frozen=True, gc=False):
    """An image that a node holds, under all its names, and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeSystemInfo(ApiValue, frozen=True, gc=False):
    """What runs on a node."""

    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(ApiStruct):
    """What a node reports of itself."""

    capacity: dict[str, Amount] = field(default_factory=dict)
    allocatable: dict[str, Amount] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject):
    """A node."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def ready(self) -> bool:
        """Whether the node's Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
