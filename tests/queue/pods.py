"""Pods, clocks and hints for tests of the queue."""

from __future__ import annotations

from policy_sched.errors import PluginError
from policy_sched.model import cluster_event
from policy_sched.model.pod_info import PodInfo, QueuedPod, QueueState
from policy_sched.queue.backoff import Timing
from policy_sched.queue.hints import HintTable
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import FakeClock, make_pod

SCHEDULER = "default-scheduler"
NOWHERE = cluster_event.ClusterEvent(
    cluster_event.EventResource.CSI_DRIVER, cluster_event.ActionType.ADD
)
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


def never(_pod: PodInfo, _old: object, _new: object) -> cluster_event.QueueingHint:
    """See no reason in any event."""
    return cluster_event.QueueingHint.SKIP


def itself(pod: PodInfo, _old: object, new: object) -> cluster_event.QueueingHint:
    """Care for the pod's own changes only."""
    own = isinstance(new, PodInfo) and new.uid == pod.uid
    return cluster_event.QueueingHint.QUEUE if own else cluster_event.QueueingHint.SKIP


def broken(_pod: PodInfo, _old: object, _new: object) -> cluster_event.QueueingHint:
    """Fail."""
    raise PluginError("this hint always fails")


OWN_CHANGE = cluster_event.ClusterEvent(cluster_event.EventResource.POD, cluster_event.UPDATE)
HINTS = {
    "Room": (
        cluster_event.ClusterEventWithHint(cluster_event.NODE_ADD),
        cluster_event.ClusterEventWithHint(cluster_event.ASSIGNED_POD_DELETE),
    ),
    "Picky": (cluster_event.ClusterEventWithHint(cluster_event.NODE_ADD, never),),
    "Broken": (cluster_event.ClusterEventWithHint(cluster_event.NODE_ADD, broken),),
    "Self": (cluster_event.ClusterEventWithHint(OWN_CHANGE, itself),),
    "Gates": (cluster_event.ClusterEventWithHint(OWN_CHANGE, itself),),
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


def by_state(queue: SchedulingQueue) -> list[tuple[QueueState, QueuedPod]]:
    """Return the pods of a queue by its views; each is in one, which says what the pod says."""
    views = {
        QueueState.ACTIVE: queue.active(),
        QueueState.BACKOFF: queue.backoff(),
        QueueState.UNSCHEDULABLE: queue.unschedulable(),
        QueueState.GATED: queue.gated(),
        QueueState.IN_FLIGHT: queue.in_flight(),
        QueueState.BINDING: queue.binding(),
    }
    pods = [(state, pod) for state, members in views.items() for pod in members]
    assert len({pod.info.uid for _, pod in pods}) == len(pods) == len(queue)
    assert all(pod.place is state for state, pod in pods)
    return pods
