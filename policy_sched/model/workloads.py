"""Workloads and services: what tells which pods belong together, and what makes pods."""

from __future__ import annotations

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, Int32, LabelSelector
from policy_sched.model.pod import PodTemplate


class ServiceSpec(ApiStruct):
    """The labels of the pods behind a service."""

    selector: dict[str, str] = field(default_factory=dict)


class Service(ApiObject):
    """A service."""

    spec: ServiceSpec = field(default_factory=ServiceSpec)


class ReplicationControllerSpec(ApiStruct):
    """Which pods a replication controller owns, and how many it wants."""

    selector: dict[str, str] = field(default_factory=dict)
    replicas: Int32 = 1
    template: PodTemplate | None = None


class ReplicationController(ApiObject):
    """A replication controller."""

    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)


class WorkloadSpec(ApiStruct):
    """Which pods a workload owns, how many it wants, and the pod it copies."""

    selector: LabelSelector | None = None
    replicas: Int32 = 1
    template: PodTemplate | None = None


class ReplicaSet(ApiObject):
    """A replica set."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)


class StatefulSet(ApiObject):
    """A stateful set."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)


class Deployment(ApiObject):
    """A deployment."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
