"""A cluster in which everything happens at once, and a clock that somebody sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.client.protocol import Done
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class VirtualClock:
    """Nanoseconds since 1970; it stands still until it is set."""

    ns: int

    def __call__(self) -> int:
        """Return the time."""
        return self.ns


@dataclass(slots=True)
class VirtualClient(MemoryClient):
    """Remembers whom it bound and whom it told to leave, until somebody takes note of it."""

    bound: list[tuple[PodInfo, str]] = field(default_factory=list)
    leaving: list[PodInfo] = field(default_factory=list)

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod at once."""
        MemoryClient.bind(self, pod, node, done)
        self.bound.append((pod, node))

    def delete_pod(self, pod: PodInfo) -> None:
        """Tell the pod to leave."""
        self.leaving.append(pod)

    def record_event(self, pod: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        """Nobody reads events here."""


def datetime_of(time: int) -> datetime:
    """Return a time in nanoseconds since 1970 as a timestamp, which has microseconds."""
    return _EPOCH + timedelta(microseconds=time // 1000)


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


def leaving_form(pod: Pod, time: int) -> Pod:
    """Return a pod as it is once it has been told to leave."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=datetime_of(time)))


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
