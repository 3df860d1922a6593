"""Variables of one evaluation that belong to the scheduling attempt, not to pod or cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.language.values import NOWHERE, NodeFacts, PlacementFacts
from policy_sched.model import NO_GROUP, GroupCounts, PodInfo, QueuedPod


@dataclass(frozen=True, slots=True)
class Event:
    """A change in the cluster: its kind of object, what was done, and the object if it is known."""

    kind: str = ""
    action: str = ""
    old_node: NodeFacts | None = None
    new_node: NodeFacts | None = None
    old_pod: PodInfo | None = None
    new_pod: PodInfo | None = None


NOTHING: Final = Event()


@dataclass(frozen=True, slots=True)
class Activation:
    """One attempt. ``now`` is in ns since 1970, and the same for every node.

    ``event`` is the event of a ``requeue`` hint, ``placement`` the domain that is scored.
    """

    now: int = 0
    queued: QueuedPod | None = None
    attempt: int = 0
    profile: str = ""
    feasible_nodes: int = 0
    preempting: bool = False
    pod_group: GroupCounts = NO_GROUP
    event: Event = NOTHING
    placement: PlacementFacts = NOWHERE
