"""A client whose cluster is this process: it remembers what it was asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from policy_sched.errors import ClusterError
from policy_sched.model.pod_info import PodInfo


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
    """Keeps bindings (UID to node), conditions (UID to reason and message) and events."""

    bindings: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

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
