"""Cluster events: what happened to which kind of object, and who may be helped by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Final, TypeAlias

from policy_sched.model.pod_info import PodInfo


class EventResource(Enum):
    """Kinds of objects whose events the queue listens to; values are upstream's names."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


class ActionType(Flag):
    """What happened to the object; flags combine."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_OTHER = auto()


class QueueingHint(Enum):
    """A hint's answer for one pod and one event."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One kind of thing that can happen."""

    resource: EventResource
    action: ActionType


Hint: TypeAlias = Callable[[PodInfo, object, object], QueueingHint]
"""From the waiting pod, the object before and the object after, to whether to queue it."""


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that a plugin registers for; without a hint every such event queues the pod."""

    event: ClusterEvent
    hint: Hint | None = None


NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
