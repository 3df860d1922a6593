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

LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label by which a pod names its group for the coscheduling plugin."""

GroupKey: TypeAlias = tuple[str, str]
"""Namespace and name of a group."""


class GangPolicy(ApiStruct):
    """All or nothing, from so many pods on."""

    min_count: Int32 = 0


class GroupPolicy(ApiStruct):
    """How the pods of a group are scheduled; without a gang each for itself."""

    gang: GangPolicy | None = None


class PodGroupSpec(ApiStruct):
    """What is wanted of a group."""

    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)


class PodGroup(ApiObject):
    """A pod group of scheduling.k8s.io."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)

    @property
    def min_count(self) -> int:
        """How many pods must run together; 0 where each runs for itself."""
        gang = self.spec.scheduling_policy.gang
        return 0 if gang is None else gang.min_count


class CoschedulingSpec(ApiStruct):
    """What is wanted of a group of the coscheduling plugin."""

    min_member: Int32 = 0


class CoschedulingGroup(ApiObject):
    """A pod group of scheduling.x-k8s.io."""

    spec: CoschedulingSpec = field(default_factory=CoschedulingSpec)

    @property
    def min_count(self) -> int:
        """How many pods must run together."""
        return self.spec.min_member


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """A group as rules see it: how many pods must run together, how many there are, run, wait."""

    name: str = ""
    min_count: int = 0
    members: int = 0
    scheduled: int = 0
    waiting: int = 0


NO_GROUP: Final = GroupCounts()
"""The group of a pod that belongs to none."""
