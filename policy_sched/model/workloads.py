"""Workloads and services: what tells which pods belong together, and what makes pods."""

from __future__ import annotations

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, ApiValue, Int32, LabelSelector
from policy_sched.model.pod import PodTemplate
from policy_sched.model.records import Condition
from policy_sched.model.storage import PersistentVolumeClaim


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


class Ordinals(ApiValue, frozen=True, gc=False):
    """The number of a stateful set's first pod."""

    start: Int32 = 0


class StatefulSetSpec(WorkloadSpec):
    """A workload whose pods have numbers, and claims of their own."""

    ordinals: Ordinals = Ordinals()
    service_name: str = ""
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSet(ApiObject):
    """A stateful set."""

    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)


class Deployment(ApiObject):
    """A deployment."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)


class DaemonSetSpec(ApiStruct):
    """The pod that every node gets which it may run on."""

    selector: LabelSelector | None = None
    template: PodTemplate | None = None


class DaemonSet(ApiObject):
    """A daemon set."""

    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)


class JobSpec(ApiStruct):
    """How many pods are to succeed, and how many may run at a time.

    Without either number it is one; without ``completions`` one success is enough.
    """

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False
    template: PodTemplate | None = None


class JobStatus(ApiStruct):
    """How far a job has come; ``completed_indexes`` is written as "0-2,5"."""

    succeeded: Int32 = 0
    completed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()


class Job(ApiObject):
    """A job."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
"""What makes pods of a template."""
