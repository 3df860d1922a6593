"""A client whose cluster is this process: it records its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from policy_sched.client.object_writes import WritableStore, carried_out
from policy_sched.client.protocol import Done
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.client.volume_controllers import complete_binding, provision
from policy_sched.errors import ClusterError
from policy_sched.model import PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, PodInfo


class Event(msgspec.Struct, frozen=True):
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
    events: list[Event] = field(default_factory=list)
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

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep the nomination."""
        self.nominations[pod.uid] = node

    def set_unschedulable(
        self, pod: PodInfo, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Keep the condition and the nomination; the latest ones stand."""
        self.conditions[pod.uid] = (reason, message)
        if nominated:
            self.nominations[pod.uid] = nominated
        elif nominated is not None:
            self.clear_nomination(pod)

    def clear_nomination(self, pod: PodInfo) -> None:
        """Forget the nomination."""
        self.nominations.pop(pod.uid, None)

    def set_group_scheduled(
        self, group: PodGroup, reason: str, message: str, *, scheduled: bool
    ) -> None:
        """Keep the condition; the latest one stands."""
        del scheduled  # the reason implies it
        meta = group.metadata
        self.group_conditions[f"{meta.namespace or 'default'}/{meta.name}"] = (reason, message)

    def set_disruption_target(self, pod: PodInfo, message: str) -> None:
        """Keep the condition."""
        self.disruptions[pod.uid] = message

    def delete_pod(self, pod: PodInfo) -> None:
        """Note the deletion."""
        self.deleted.append(pod.uid)

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
        self.events.append(Event(pod.key, kind, reason, action, note))

    def update_volume(self, volume: PersistentVolume) -> None:
        """Bind the volume and its claim to each other."""
        if self.objects is not None:
            complete_binding(self.objects, volume)

    def update_claim(self, claim: PersistentVolumeClaim) -> None:
        """Create a volume for the claim and bind them to each other."""
        if self.objects is not None:
            provision(self.objects, claim)

    def send(self, request: ObjectRequest, done: ObjectResponse) -> None:
        """Carry the request out on ``objects``, and respond at once."""
        if self.objects is None or request.kind is Pod:
            self.requests.append(request)
            done(None, None)
            return
        try:
            response = carried_out(self.objects, request)
        except ClusterError as error:
            done(None, error)
            return
        done(response, None)
