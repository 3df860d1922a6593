"""What an attempt to schedule a pod knows besides the pod and the cluster, as rules may read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from policy_sched.model.queued_pod import QueuedPod


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pod's group: how many must run together, how many there are, run, and wait."""

    name: str = ""
    min_count: int = 0
    members: int = 0
    scheduled: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Cycle:
    """One attempt. ``now`` is in ns since 1970, and the same for every node."""

    now: int = 0
    queued: QueuedPod | None = None
    attempt: int = 0
    profile: str = ""
    feasible_nodes: int = 0
    preempting: bool = False
    pod_group: PodGroup = field(default_factory=PodGroup)
