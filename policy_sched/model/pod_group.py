"""Pod groups: pods that are scheduled together, and the objects with the required number.

A pod names its group in ``spec.schedulingGroup.podGroupName`` (scheduling.k8s.io, whose PodGroup
has a gang policy) or in the label of the coscheduling plugin (scheduling.x-k8s.io, whose PodGroup
has a minimum number of members). The group is in the pod's namespace in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import field

from policy_sched.model import meta
from policy_sched.model.quantity import Amount, units

SCHEDULING_VERSION: Final = "scheduling.k8s.io/v1alpha2"
"""The version of PodGroup and Workload; Kubernetes 1.37 replaces it."""

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label with a pod's group for the coscheduling plugin."""

SCHEDULED: Final = "PodGroupScheduled"
"""The condition of a PodGroup for whether its pods have nodes."""

WHOLE_GROUP: Final = "PodGroup"
"""The disruptionMode of a group whose pods are evicted together; otherwise one by one."""

GroupKey: TypeAlias = tuple[str, str]
"""Namespace and name of a group."""


class GangPolicy(meta.ApiStruct):
    """The minimum number of pods that are scheduled together."""

    min_count: meta.Int32 = 0


class GroupPolicy(meta.ApiStruct):
    """How the pods of a group are scheduled; without a gang individually."""

    gang: GangPolicy | None = None


class TopologyConstraint(meta.ApiStruct):
    """The label whose value all nodes of a group's pods share."""

    key: str = ""


class SchedulingConstraints(meta.ApiStruct):
    """Constraints on a group's nodes; the API allows one topology."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(meta.ApiStruct):
    """A group's configuration."""

    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str = ""
    priority_class_name: str = ""
    priority: meta.Int32 | None = None


class PodGroupStatus(meta.ApiStruct):
    """A group's observed state."""

    conditions: tuple[meta.Condition, ...] = ()


class PodGroup(meta.ApiObject):
    """A pod group of scheduling.k8s.io."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)

    @property
    def min_count(self) -> int:
        """The number of pods that must run together; 0 if pods are independent."""
        gang = self.spec.scheduling_policy.gang
        return 0 if gang is None else gang.min_count

    @property
    def topology_key(self) -> str:
        """The label whose value the nodes share; empty if there is none."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints and constraints.topology else ""

    @property
    def priority(self) -> int:
        """The priority of the group; those of its pods are not consulted for it."""
        return self.spec.priority or 0

    @property
    def schedule_timeout(self) -> int | None:
        """The timeout for waiting pods in ns; None, since this kind of group has none."""
        return None

    @property
    def min_resources(self) -> dict[str, int]:
        """What the group needs in all, in units; this kind of group does not say."""
        return {}


class CoschedulingSpec(meta.ApiStruct):
    """The configuration of a group of the coscheduling plugin."""

    min_member: meta.Int32 = 0
    schedule_timeout_seconds: meta.Int32 | None = None
    min_resources: dict[str, Amount] = field(default_factory=dict)


class CoschedulingGroup(meta.ApiObject):
    """A pod group of scheduling.x-k8s.io."""

    spec: CoschedulingSpec = field(default_factory=CoschedulingSpec)

    @property
    def min_count(self) -> int:
        """The number of pods that must run together."""
        return self.spec.min_member

    @property
    def topology_key(self) -> str:
        """The label whose value the nodes share; this kind of group has none."""
        return ""

    @property
    def schedule_timeout(self) -> int | None:
        """The timeout for waiting pods in ns; None if it is not set."""
        seconds = self.spec.schedule_timeout_seconds
        return None if seconds is None else seconds * 1_000_000_000

    @property
    def min_resources(self) -> dict[str, int]:
        """What the group needs in all, in units; empty if it does not say."""
        stated = self.spec.min_resources
        return {name: max(0, units(name, amount)) for name, amount in stated.items()}


class GroupCounts(msgspec.Struct, frozen=True):
    """A group in rules: its required pods, the numbers of others, and what became of them.

    ``exists``: whether there is a PodGroup of that name; ``topology_key``: the label whose value
    its nodes share, or empty; ``schedule_timeout``: the timeout for waiting pods in ns, or None.
    Times are ns since 1970, or None. ``requested``: of the pods that have nodes, in units;
    ``failures``: see `PodGroups.failed`. ``object``: its PodGroup, if there is one.
    """

    name: str = ""
    min_count: int = 0
    members: int = 0
    scheduled: int = 0
    waiting: int = 0
    topology_key: str = ""
    schedule_timeout: int | None = None
    exists: bool = False
    gated: int = 0
    requested: Mapping[str, int] = MappingProxyType({})
    min_resources: Mapping[str, int] = MappingProxyType({})
    creation_time: int | None = None
    waiting_since: int | None = None
    tried_since: int | None = None
    failed_at: int | None = None
    sent_back_at: int | None = None
    failures: int = 0
    object: PodGroup | CoschedulingGroup | None = None


NO_GROUP: Final = GroupCounts()
"""The group of a pod without a group."""
