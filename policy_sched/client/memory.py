"""A client whose cluster is this process: it remembers what it was asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from policy_sched.client.volume_controllers import ObjectStore, complete_binding, provision
from policy_sched.errors import ClusterError
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it would be written, without time and names of its own."""

    pod: str
    kind: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class MemoryClient:
    """Keeps bindings (UID to node), conditions (UID to reason and message) and events.

    Volumes and claims go to ``objects``, where they are bound at once; without it nobody does it.
    """

    bindings: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    objects: ObjectStore | None = None

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod; ClusterError if it is bound already, as an API server would say."""
        bound = self.bindings.get(pod.uid)
        if bound is not None:
            text = f'pod {pod.name} is already assigned to node "{bound}"'
            raise ClusterError(
                f'Operation cannot be fulfilled on pods/binding "{pod.name}": {text}'
            )
        self.bindings[pod.uid] = node
        self.conditions.pop(pod.uid, None)

    def set_unschedulable(self, pod: PodInfo, reason: str, message: str) -> None:
        """Keep the condition; the latest one stands."""
        self.conditions[pod.uid] = (reason, message)

    def record_event(self, pod: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        """Append the event."""
        self.events.append(Event(pod.key, kind, reason, action, note))

    def update_volume(self, volume: PersistentVolume) -> None:
        """Bind the volume and its claim to each other."""
        if self.objects is not None:
            complete_binding(self.objects, volume)

    def update_claim(self, claim: PersistentVolumeClaim) -> None:
        """Make a volume for the claim and bind them to each other."""
        if self.objects is not None:
            provision(self.objects, claim)

    def wait(self, seconds: float) -> bool:  # noqa: ARG002 - whatever happens here has happened
        """Return False: nothing happens by itself."""
        return False
