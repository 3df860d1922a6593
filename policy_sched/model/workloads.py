"""Workloads and services: they select pods that belong together, or create pods."""

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
    """The selector and the replicas of a replication controller."""

    selector: dict[str, str] = field(default_factory=dict)
    replicas: Int32 = 1
    template: PodTemplate | None = None


class ReplicationController(ApiObject):
    """A replication controller."""

    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)


class WorkloadSpec(ApiStruct):
    """The selector, the replicas and the pod template of a workload."""

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
    """A workload whose pods have ordinals, and claims of their own."""

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
    """The template of the pod for every eligible node."""

    selector: LabelSelector | None = None
    template: PodTemplate | None = None


class DaemonSet(ApiObject):
    """A daemon set."""

    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)


class JobSpec(ApiStruct):
    """The number of pods that must succeed, and of those that may run at a time.

    Each defaults to one; without ``completions`` one success is enough.
    """

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False
    template: PodTemplate | None = None


class JobStatus(ApiStruct):
    """The progress of a job; ``completed_indexes`` is written as "0-2,5"."""

    succeeded: Int32 = 0
    completed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()


class Job(ApiObject):
    """A job."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
"""A kind with a pod template."""
