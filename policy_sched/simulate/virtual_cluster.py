"""A cluster in which everything happens at once, and a clock that is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from policy_sched.client import Done, MemoryClient
from policy_sched.cluster import Cache
from policy_sched.model import (
    ApiObject,
    Condition,
    Namespace,
    Node,
    Pod,
    PodGroup,
    PodInfo,
    datetime_of,
)

ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds nothing any more; kube-scheduler does not watch such pods."""


def load_cluster(cache: Cache, objects: Iterable[ApiObject]) -> list[Pod]:
    """Take in nodes, namespaces and running pods; return the pods that have no node, in order."""
    running: list[Pod] = []
    pending: list[Pod] = []
    for one in objects:
        if isinstance(one, Node):
            cache.add_node(one)
        elif isinstance(one, Namespace):
            cache.set_namespace(one)
        elif isinstance(one, Pod) and one.status.phase not in ENDED:
            (running if one.spec.node_name else pending).append(one)
    for pod in running:
        cache.add_pod(PodInfo.of(pod))
    return pending


_DISRUPTED: Final = Condition("DisruptionTarget", "True", "PreemptionByScheduler")


@dataclass(slots=True)
class VirtualClock:
    """Nanoseconds since 1970; it advances only when it is set."""

    ns: int

    def __call__(self) -> int:
        """Return the time."""
        return self.ns


@dataclass(slots=True)
class VirtualClient(MemoryClient):
    """Records its writes to pods until the caller delivers them to the scheduler, as a watch would.

    ``bound``: pods and their nodes; ``leaving``: pods that are being deleted; ``promised``: pods
    and their new nominated nodes, empty for none.
    """

    bound: list[tuple[PodInfo, str]] = field(default_factory=list)
    leaving: list[PodInfo] = field(default_factory=list)
    promised: list[tuple[PodInfo, str]] = field(default_factory=list)

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod at once."""
        MemoryClient.bind(self, pod, node, done)
        self.bound.append((pod, node))

    def set_unschedulable(
        self, pod: PodInfo, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Record a nomination; the condition is not read by anything."""
        del reason, message
        if nominated is not None and nominated != pod.nominated_node_name:
            self.promised.append((pod, nominated))

    def clear_nomination(self, pod: PodInfo) -> None:
        """Record that the nomination is cleared."""
        self.promised.append((pod, ""))

    def set_group_scheduled(
        self, group: PodGroup, reason: str, message: str, *, scheduled: bool
    ) -> None:
        """No-op: nothing reads the condition."""

    def set_disruption_target(self, pod: PodInfo, message: str) -> None:
        """No-op: `delete_pod` adds the condition, and nothing reads the message."""

    def delete_pod(self, pod: PodInfo) -> None:
        """Record that the pod is being deleted."""
        self.leaving.append(pod)

    def record_event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | None = None,
    ) -> None:
        """No-op: nothing reads events."""


def created_form(pod: Pod, time: int) -> Pod:
    """Return a pod as it is created at a time."""
    if pod.metadata.creation_timestamp is not None:
        return pod
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=datetime_of(time)))


def bound_form(pod: Pod, node: str, time: int) -> Pod:
    """Return a pod as it runs on a node since a time."""
    status = replace(
        pod.status, phase="Running", start_time=datetime_of(time), nominated_node_name=""
    )
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def promised_form(pod: Pod, node: str) -> Pod:
    """Return a pod as it is nominated to a node, or to none."""
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def leaving_form(pod: Pod, time: int) -> Pod:
    """Return a pod as it is once the scheduler has deleted it."""
    status = replace(pod.status, conditions=(*pod.status.conditions, _DISRUPTED))
    metadata = replace(pod.metadata, deletion_timestamp=datetime_of(time))
    return replace(pod, metadata=metadata, status=status)


def next_form(pod: Pod, name: str, time: int) -> Pod:
    """Return the pod that a controller makes in the place of one that was evicted."""
    metadata = replace(
        pod.metadata,
        name=name,
        uid="",
        creation_timestamp=datetime_of(time),
        deletion_timestamp=None,
    )
    spec = replace(pod.spec, node_name="")
    return replace(pod, metadata=metadata, spec=spec, status=type(pod.status)())
