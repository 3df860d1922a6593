"""Pod groups: pods that are to run together, and the objects that say how many must.

A pod names its group in ``spec.schedulingGroup.podGroupName`` (scheduling.k8s.io, whose PodGroup
has a gang policy) or in the label of the coscheduling plugin (scheduling.x-k8s.io, whose PodGroup
has a least number of members). The group is of the pod's namespace in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, Int32
from policy_sched.model.records import Condition

LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label by which a pod names its group for the coscheduling plugin."""

SCHEDULED: Final = "PodGroupScheduled"
"""The condition of a PodGroup that says whether its pods have nodes."""

GroupKey: TypeAlias = tuple[str, str]
"""Namespace and name of a group."""


class GangPolicy(ApiStruct):
    """All or nothing, from so many pods on."""

    min_count: Int32 = 0


class GroupPolicy(ApiStruct):
    """How the pods of a group are scheduled; without a gang each for itself."""

    gang: GangPolicy | None = None


class TopologyConstraint(ApiStruct):
    """The label whose value all nodes of a group's pods share."""

    key: str = ""


class SchedulingConstraints(ApiStruct):
    """What holds for a group's nodes; the API allows one topology."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(ApiStruct):
    """What is wanted of a group."""

    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)
    scheduling_constraints: SchedulingConstraints | None = None


class PodGroupStatus(ApiStruct):
    """What became of a group so far."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(ApiObject):
    """A pod group of scheduling.k8s.io."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)

    @property
    def min_count(self) -> int:
        """How many pods must run together; 0 where each runs for itself."""
        gang = self.spec.scheduling_policy.gang
        return 0 if gang is None else gang.min_count

    @property
    def topology_key(self) -> str:
        """The label whose value the nodes share; empty where they need not."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints and constraints.topology else ""

    @property
    def schedule_timeout(self) -> int | None:
        """How long its pods may wait for one another, in ns; this kind of group does not say."""
        return None


class CoschedulingSpec(ApiStruct):
    """What is wanted of a group of the coscheduling plugin."""

    min_member: Int32 = 0
    schedule_timeout_seconds: Int32 | None = None


class CoschedulingGroup(ApiObject):
    """A pod group of scheduling.x-k8s.io."""

    spec: CoschedulingSpec = field(default_factory=CoschedulingSpec)

    @property
    def min_count(self) -> int:
        """How many pods must run together."""
        return self.spec.min_member

    @property
    def topology_key(self) -> str:
        """The label whose value the nodes share; this kind of group does not say."""
        return ""

    @property
    def schedule_timeout(self) -> int | None:
        """How long its pods may wait for one another, in ns; None where it does not say."""
        seconds = self.spec.schedule_timeout_seconds
        return None if seconds is None else seconds * 1_000_000_000


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """A group as rules see it: how many pods must run together, how many there are, run, wait.

    ``exists``: whether there is a PodGroup of that name; ``topology_key``: the label whose value
    its nodes share, or empty; ``schedule_timeout``: how long its pods may wait for one another, in
    ns, or None.
    """

    name: str = ""
    min_count: int = 0
    members: int = 0
    scheduled: int = 0
    waiting: int = 0
    topology_key: str = ""
    schedule_timeout: int | None = None
    exists: bool = False


NO_GROUP: Final = GroupCounts()
"""The group of a pod that belongs to none."""
