"""Pods, clocks and hints for tests of the queue."""

from __future__ import annotations

from policy_sched.errors import PluginError
from policy_sched.model.cluster_event import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.queue.backoff import Timing
from policy_sched.queue.hints import HintTable
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import FakeClock, make_pod

SCHEDULER = "default-scheduler"
NOWHERE = ClusterEvent(EventResource.CSI_DRIVER, ActionType.ADD)
"""An event that no plugin registered for."""


def info(name: str = "p", **fields: object) -> PodInfo:
    """Return a pod."""
    return PodInfo.of(make_pod(name, **fields))  # type: ignore[arg-type]  # keywords of make_pod


def queued(name: str = "p", **fields: object) -> QueuedPod:
    """Return a pod that is in no queue."""
    return QueuedPod(info(name, **fields))


def by_priority(pod: QueuedPod) -> tuple[int, int]:
    """Sort as PrioritySort does."""
    return (-pod.info.priority, pod.enqueued_at)


def gates(pod: PodInfo, _first: str) -> str:
    """Keep pods out that have scheduling gates."""
    return "Gates" if pod.scheduling_gates else ""


def never(_pod: PodInfo, _old: object, _new: object) -> QueueingHint:
    """See no reason in any event."""
    return QueueingHint.SKIP


def itself(pod: PodInfo, _old: object, new: object) -> QueueingHint:
    """Care for the pod's own changes only."""
    own = isinstance(new, PodInfo) and new.uid == pod.uid
    return QueueingHint.QUEUE if own else QueueingHint.SKIP


def broken(_pod: PodInfo, _old: object, _new: object) -> QueueingHint:
    """Fail."""
    raise PluginError("this hint always fails")


OWN_CHANGE = ClusterEvent(EventResource.POD, UPDATE)
HINTS = {
    "Room": (ClusterEventWithHint(NODE_ADD), ClusterEventWithHint(ASSIGNED_POD_DELETE)),
    "Picky": (ClusterEventWithHint(NODE_ADD, never),),
    "Broken": (ClusterEventWithHint(NODE_ADD, broken),),
    "Self": (ClusterEventWithHint(OWN_CHANGE, itself),),
    "Gates": (ClusterEventWithHint(OWN_CHANGE, itself),),
    "Deaf": (),
}


def hint_table() -> HintTable:
    """Return the hints of plugins that are named after what they do."""
    return HintTable({SCHEDULER: HINTS})


def make_queue(clock: FakeClock | None = None, timing: Timing | None = None) -> SchedulingQueue:
    """Return an empty queue with gates and hints."""
    return SchedulingQueue(
        by_priority, clock or FakeClock(), gate=gates, hints=hint_table(), timing=timing
    )


def names(pods: list[QueuedPod]) -> list[str]:
    """Return the names of pods in their order."""
    return [pod.info.name for pod in pods]
