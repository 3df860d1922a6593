"""Clients whose cluster is this process: they record their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from policy_sched.client.object_writes import WritableStore, carried_out
from policy_sched.client.protocol import Done
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.model import Pod, PodCondition, PodGroup, PodInfo


class RecordedEvent(msgspec.Struct, frozen=True):
    """An event as it would be written, without time and names of its own."""

    pod: str
    kind: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class MemoryClient:
    """Keeps the calls by UID of the pod, and the events.

    ``conditions`` are reason and message of PodScheduled=False, ``disruptions`` the message of
    DisruptionTarget, ``group_conditions`` reason and message of PodGroupScheduled, by the group.
    Pods that were deleted keep running: no kubelet is here to stop them. Volumes and claims go to
    ``objects``, where they are bound at once; without it they stay unbound. Other objects are
    written there as requests say; those about pods are only kept in ``requests``.
    """

    bindings: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    nominations: dict[str, str] = field(default_factory=dict)
    disruptions: dict[str, str] = field(default_factory=dict)
    group_conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    events: list[RecordedEvent] = field(default_factory=list)
    objects: WritableStore | None = None
    requests: list[ObjectRequest] = field(default_factory=list)

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod at once; ClusterError if it is bound already, as an API server would say."""
        bound = self.bindings.get(pod.uid)
        if bound is not None:
            text = f'pod {pod.name} is already assigned to node "{bound}"'
            raise ClusterError(
                f'Operation cannot be fulfilled on pods/binding "{pod.name}": {text}'
            )
        self.bindings[pod.uid] = node
        self.conditions.pop(pod.uid, None)
        self.nominations.pop(pod.uid, None)
        done(None)

    def delegate(self, pod: PodInfo, work: Callable[[], None], done: Done) -> None:  # noqa: ARG002 - see Client
        """Do the work at once."""
        work()
        done(None)

    def record_event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | None = None,  # noqa: ARG002 - see Client
    ) -> None:
        """Append the event."""
        self.events.append(RecordedEvent(pod.key, kind, reason, action, note))

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Carry the request out on ``objects``, and respond at once."""
        response, refusal = None, None
        if request.kind is Pod or request.kind is PodGroup:
            self._note(request)
        elif self.objects is None:
            self.requests.append(request)
        else:
            try:
                response = carried_out(self.objects, request)
            except ClusterError as error:
                refusal = error
        if done is not None:
            done(response, refusal)
        elif refusal is not None:
            raise refusal

    def _note(self, request: ObjectRequest) -> None:
        """Keep what changes a pod or a group."""
        uid, status = request.uid, request.body.get("status", {})
        if request.verb == "delete":
            self.deleted.append(uid)
        elif "conditions" not in status and "nominatedNodeName" not in status:
            self.requests.append(request)
        for condition in status.get("conditions", ()):
            reason, message = condition["reason"], condition["message"]
            if request.kind is PodGroup:
                self.group_conditions[request.key] = reason, message
            elif condition["type"] == "PodScheduled":
                self.conditions[uid] = reason, message
            else:
                self.disruptions[uid] = message
        if status.get("nominatedNodeName"):
            self.nominations[uid] = status["nominatedNodeName"]
        elif "nominatedNodeName" in status:
            self.nominations.pop(uid, None)


@dataclass(slots=True)
class VirtualClient(MemoryClient):
    """Keeps what changes pods until the caller delivers it to the scheduler, as a watch would.

    Nothing reads its events and conditions.
    """

    bound: list[tuple[PodInfo, str]] = field(default_factory=list)
    """Pods and their nodes."""
    leaving: list[ObjectRequest] = field(default_factory=list)
    """The deletions of pods."""
    nominated: list[tuple[str, str]] = field(default_factory=list)
    """UIDs of pods and their new nominated nodes, empty for none."""

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod at once."""
        if pod.uid in self.bindings:
            MemoryClient.bind(self, pod, node, done)  # it is refused
        self.bindings[pod.uid] = node
        self.bound.append((pod, node))
        done(None)

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

    def _note(self, request: ObjectRequest) -> None:
        if request.kind is not Pod:
            return
        node = nomination_of(request)
        if node is not None:
            self.nominated.append((request.uid, node))
        elif request.verb == "delete":
            self.leaving.append(request)


def nomination_of(request: ObjectRequest) -> str | None:
    """Return the node that a request nominates a pod to, empty for none, None if it stays."""
    status = request.body.get("status", {})
    return (status["nominatedNodeName"] or "") if "nominatedNodeName" in status else None


def condition_of(request: ObjectRequest) -> PodCondition | None:
    """Return the condition that a request sets, if any."""
    conditions = request.body.get("status", {}).get("conditions")
    return msgspec.convert(conditions[0], PodCondition) if conditions else None
