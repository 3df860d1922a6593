"""Cluster events: kinds of objects, actions on them, and the registrations that they match."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Final, TypeAlias, TypeVar

import msgspec

from policy_sched.model.pod_info import PodInfo, QueuedPod

T = TypeVar("T")


class EventResource(Enum):
    """Kinds of objects whose events the queue handles; values are upstream's names.

    A plugin that registers for ``POD`` receives events of assigned and of unscheduled pods.
    """

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
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    INPUT = "Input"
    """An object of an input of a policy; upstream has no such kind."""
    WILDCARD = "*"


class ActionType(Flag):
    """The change of the object; flags combine."""

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
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE_OTHER = auto()


ALL: Final = ~ActionType(0)
UPDATE: Final = ALL & ~(ActionType.ADD | ActionType.DELETE)
"""Every change of an existing object."""


class QueueingHint(Enum):
    """The result of a hint for one pod and one event."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"

    @staticmethod
    def queue_if(matters: bool) -> QueueingHint:
        """Return QUEUE for an event that may make the pod schedulable, else SKIP."""
        return QueueingHint.QUEUE if matters else QueueingHint.SKIP


def before_and_after(kind: type[T], old: object, new: object) -> tuple[T | None, T | None]:
    """Return the forms of an object that an event brings, None where it is not of this kind."""
    return (old if isinstance(old, kind) else None), (new if isinstance(new, kind) else None)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One kind of event; ``name`` replaces the label of special events."""

    resource: EventResource
    action: ActionType
    name: str = ""
    label: str = field(init=False, compare=False, repr=False)
    """The metric label, such as ``NodeAdd``; several actions at once are joined by ``|``."""
    wildcard: bool = field(init=False, compare=False, repr=False)
    """Whether the event matches every registration: it moves all rejected pods."""

    def __post_init__(self) -> None:
        """Make what is read for each change of the cluster."""
        label = self.name or self.resource.value + action_label(self.action)
        object.__setattr__(self, "label", label)
        wildcard = self.resource is EventResource.WILDCARD and self.action == ALL
        object.__setattr__(self, "wildcard", wildcard)

    def covers(self, incoming: ClusterEvent) -> bool:
        """Return whether a plugin registered for this event receives the other."""
        if self.wildcard:
            return True
        wanted = self.resource in (EventResource.WILDCARD, incoming.resource) or (
            self.resource is EventResource.POD and incoming.resource in _PODS
        )
        return wanted and not incoming.wildcard and bool(self.action & incoming.action)


_PODS: Final = frozenset({EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD})
_ACTION_LABELS: Final = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_OTHER: "Update",
    UPDATE: "Update",
    ALL: "All",
}


def action_label(action: ActionType) -> str:
    """Return the name of one action, or the names of several joined by ``|``."""
    label = _ACTION_LABELS.get(action)
    if label is not None:
        return label
    parts = [_ACTION_LABELS.get(flag) or str(flag.name).title().replace("_", "") for flag in action]
    return "|".join(parts)


Hint: TypeAlias = Callable[[PodInfo, object, object], QueueingHint]
"""Returns whether to queue a pod, from the pod, the object before and the object after.

A hint for pods receives every pod: one for the waiting pod itself compares UIDs.
"""


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """An event that a plugin registers for; without a hint every such event queues the pod.

    ``every``: besides events, a pod that the plugin rejected or gates is retried this many
    nanoseconds after it was requeued; 0: only events count. `TIMER` means that no event counts.
    ``moment`` returns when the time itself may help a pod, ns since 1970 and after now; 0: never.
    ``alike``: a key of pods; for pods with equal keys the hint returns the same, so that one run
    holds for all of them. Without it the hint runs for every pod.
    """

    event: ClusterEvent
    hint: Hint | None = None
    every: int = 0
    moment: Callable[[QueuedPod], int] | None = None
    alike: Callable[[PodInfo], Hashable] | None = None


NODE_TAINT_UPDATE: Final = ClusterEventWithHint(
    ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
)
"""kube-scheduler registers this for each plugin that waits for new nodes and not for other taints:
its queue may have missed that the node was added (buildQueueingHintMap)."""
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
"""An unscheduled pod was added."""
TIMER: Final = ClusterEvent(EventResource.WILDCARD, ActionType(0), "Timer")
"""Matches no event; a registration for it is driven by time alone."""
REQUEUE_EVERY: Final = ClusterEvent(EventResource.WILDCARD, ALL, "RequeueEvery")
"""The retry interval of a plugin that rejected the pod has passed."""
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(EventResource.WILDCARD, ALL, "UnschedulableTimeout")
"""A pod was unschedulable for too long."""
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ALL, "ForceActivate")
"""A plugin requests an immediate retry of a pod."""
POLICY_RELOAD: Final = ClusterEvent(EventResource.WILDCARD, ALL, "PolicyReload")
"""Policies were reloaded."""

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
UNSCHEDULABLE_POD_ADD: Final = "UnschedulablePodAdd"
UNSCHEDULABLE_POD_UPDATE: Final = "UnschedulablePodUpdate"
"""Further labels of reasons for which a pod enters a queue (upstream's)."""
