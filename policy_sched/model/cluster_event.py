"""Cluster events: kinds of objects, actions on them, and the registrations that they match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Final, TypeAlias

from policy_sched.model.pod_info import PodInfo


class EventResource(Enum):
    """Kinds of objects whose events the queue listens to; values are upstream's names.

    A plugin that registers for ``POD`` hears of assigned and of unschedulable pods.
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


ALL: Final = ~ActionType(0)
UPDATE: Final = ALL & ~(ActionType.ADD | ActionType.DELETE)
"""Every change of an object that stays."""


class QueueingHint(Enum):
    """A hint's answer for one pod and one event."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One kind of thing that can happen; ``name`` replaces the label of special events."""

    resource: EventResource
    action: ActionType
    name: str = ""

    @property
    def label(self) -> str:
        """The metric label, such as ``NodeAdd``; several actions at once are joined by ``|``."""
        return self.name or self.resource.value + action_label(self.action)

    @property
    def wildcard(self) -> bool:
        """Whether the event matches everything: it moves pods whatever plugin rejected them."""
        return self.resource is EventResource.WILDCARD and self.action == ALL

    def covers(self, incoming: ClusterEvent) -> bool:
        """Tell whether a plugin registered for this event receives the other."""
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
    known = _ACTION_LABELS.get(action)
    if known is not None:
        return known
    parts = [_ACTION_LABELS.get(one) or str(one.name).title().replace("_", "") for one in action]
    return "|".join(parts)


Hint: TypeAlias = Callable[[PodInfo, object, object], QueueingHint]
"""From the waiting pod, the object before and the object after, to whether to queue it.

A hint for pods is told of every pod: one that cares about the waiting pod itself compares UIDs.
"""


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that a plugin registers for; without a hint every such event queues the pod.

    ``every``: beside events, a pod that the plugin rejected or gates is tried again so many
    nanoseconds after it came back; 0: only events count. `TIMER` stands for no event at all.
    """

    event: ClusterEvent
    hint: Hint | None = None
    every: int = 0


NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
"""A pod came that has no node."""
TIMER: Final = ClusterEvent(EventResource.WILDCARD, ActionType(0), "Timer")
"""Nothing happens; what is registered for it goes by the time."""
REQUEUE_EVERY: Final = ClusterEvent(EventResource.WILDCARD, ALL, "RequeueEvery")
"""The time is up after which a plugin wants pods that it rejected to be tried again."""
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(EventResource.WILDCARD, ALL, "UnschedulableTimeout")
"""A pod was left in the pool for too long."""
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ALL, "ForceActivate")
"""A plugin wants a pod to be tried again now."""
POLICY_RELOAD: Final = ClusterEvent(EventResource.WILDCARD, ALL, "PolicyReload")
"""Other policies decide from now on."""

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
UNSCHEDULABLE_POD_ADD: Final = "UnschedulablePodAdd"
UNSCHEDULABLE_POD_UPDATE: Final = "UnschedulablePodUpdate"
"""Labels, beside those of events, of what brings a pod into one of the queues (upstream's)."""
