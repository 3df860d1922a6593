"""Objects beside pods: nodes, namespaces, priority and runtime classes, disruption budgets.

Decoded straight from API JSON: the fields that scheduling reads. Terms of pod affinity select
namespaces by label. A runtime class adds its overhead, node selector and
tolerations to a pod when the pod is created, as the RuntimeClass admission plugin does.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import field

from policy_sched.model import meta
from policy_sched.model.pod import PodSpec, PodTemplate
from policy_sched.model.quantity import Amount, nanos
from policy_sched.model.storage import PersistentVolumeClaim


class NodeSpec(meta.ApiStruct):
    """A node's configuration."""

    taints: tuple[meta.Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = field(default="", name="providerID")


class ContainerImage(meta.ApiValue, frozen=True, gc=False):
    """An image on a node, with all its names, and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: meta.Int64 = 0


class NodeSystemInfo(meta.ApiValue, frozen=True, gc=False):
    """Software and system of a node."""

    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(meta.ApiStruct):
    """A node's reported state."""

    capacity: dict[str, Amount] = field(default_factory=dict)
    allocatable: dict[str, Amount] = field(default_factory=dict)
    conditions: tuple[meta.Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    declared_features: tuple[str, ...] = ()


class Node(meta.ApiObject):
    """A node."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def ready(self) -> bool:
        """Whether the node's Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class Namespace(meta.ApiObject):
    """A namespace; only its metadata is read."""


class PriorityClass(meta.ApiObject):
    """A named priority; the one with ``global_default`` applies to pods without a class."""

    value: meta.Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


class PodDisruptionBudgetSpec(meta.ApiStruct):
    """The selected pods, and how many of them (a number or a percentage) must stay available."""

    min_available: meta.Int32 | str | None = None
    max_unavailable: meta.Int32 | str | None = None
    selector: meta.LabelSelector | None = None


class PodDisruptionBudgetStatus(meta.ApiStruct):
    """The number of evictions still allowed, and the pods being evicted."""

    disruptions_allowed: meta.Int32 = 0
    current_healthy: meta.Int32 = 0
    desired_healthy: meta.Int32 = 0
    expected_pods: meta.Int32 = 0
    disrupted_pods: dict[str, datetime] = field(default_factory=dict)


class PodDisruptionBudget(meta.ApiObject):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


MOST_TOLERATIONS: Final = 1_000
"""Tolerations of a pod that are compared with those of its runtime class."""


class Overhead(meta.ApiStruct):
    """The resources that each pod of a class uses in addition."""

    pod_fixed: dict[str, Amount] = field(default_factory=dict)


class Scheduling(meta.ApiStruct):
    """The nodes for the pods of a class."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[meta.Toleration, ...] = ()


class RuntimeClass(meta.ApiObject):
    """A runtime class."""

    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class RejectedError(ValueError):
    """The reason why a pod is rejected, in the admission plugin's words."""


def admit(spec: PodSpec, runtime_class: RuntimeClass) -> None:
    """Merge a runtime class into a pod. Raises RejectedError if they conflict."""
    if runtime_class.overhead is not None:
        if spec.overhead and not _equal(spec.overhead, runtime_class.overhead.pod_fixed):
            what = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise RejectedError(f"pod rejected: {what}")
        spec.overhead = dict(runtime_class.overhead.pod_fixed)
    if runtime_class.scheduling is None:
        return
    for key, value in sorted(runtime_class.scheduling.node_selector.items()):
        own = spec.node_selector.get(key, value)
        if own != value:
            wanted = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise RejectedError(f"conflict: {wanted}; pod.spec.nodeSelector[{key}] = {own}")
    spec.node_selector = {**spec.node_selector, **runtime_class.scheduling.node_selector}
    if runtime_class.scheduling.tolerations:
        every = (*spec.tolerations, *runtime_class.scheduling.tolerations)
        if len(every) > MOST_TOLERATIONS:
            what = f"more than {MOST_TOLERATIONS} tolerations with those of the RuntimeClass"
            raise RejectedError(f"pod rejected: {what}")
        spec.tolerations = merged(every)


def check_overhead(spec: PodSpec, runtime_class: RuntimeClass | None) -> None:
    """Raise RejectedError if a pod has an overhead that its runtime class does not set."""
    if spec.overhead and (runtime_class is None or runtime_class.overhead is None):
        what = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise RejectedError(f"pod rejected: {what}")


def merged(every: tuple[meta.Toleration, ...]) -> tuple[meta.Toleration, ...]:
    """Return tolerations without those that another one covers; of equal ones the first."""
    kept: list[meta.Toleration] = []
    for position, toleration in enumerate(every):
        later = (other for other in every[position + 1 :] if other != toleration)
        if not any(_includes(other, toleration) for other in (*kept, *later)):
            kept.append(toleration)
    return tuple(kept)


def _includes(wide: meta.Toleration, toleration: meta.Toleration) -> bool:
    """Return whether a toleration covers another one."""
    if wide == toleration:
        return True
    if toleration.key != wide.key and not (not wide.key and wide.operator == "Exists"):
        return False
    if wide.effect not in ("", toleration.effect):
        return False
    if toleration.effect == "NoExecute" and wide.toleration_seconds is not None:
        seconds = toleration.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", "Equal"):
        return toleration.operator in ("", "Equal") and toleration.value == wide.value
    return wide.operator == "Exists"


def _equal(amounts_given: Mapping[str, Amount], other: Mapping[str, Amount]) -> bool:
    def amounts(given: Mapping[str, Amount]) -> dict[str, int]:
        return {name: nanos(str(amount)) for name, amount in given.items()}

    return amounts(amounts_given) == amounts(other)


class ServiceSpec(meta.ApiStruct):
    """The labels of the pods behind a service."""

    selector: dict[str, str] = field(default_factory=dict)


class Service(meta.ApiObject):
    """A service."""

    spec: ServiceSpec = field(default_factory=ServiceSpec)


class ReplicationControllerSpec(meta.ApiStruct):
    """The selector and the replicas of a replication controller."""

    selector: dict[str, str] = field(default_factory=dict)
    replicas: meta.Int32 = 1
    template: PodTemplate | None = None


class ReplicationController(meta.ApiObject):
    """A replication controller."""

    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)


class WorkloadSpec(meta.ApiStruct):
    """The selector, the replicas and the pod template of a workload."""

    selector: meta.LabelSelector | None = None
    replicas: meta.Int32 = 1
    template: PodTemplate | None = None


class ReplicaSet(meta.ApiObject):
    """A replica set."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)


class Ordinals(meta.ApiValue, frozen=True, gc=False):
    """The number of a stateful set's first pod."""

    start: meta.Int32 = 0


class StatefulSetSpec(WorkloadSpec):
    """A workload whose pods have ordinals, and claims of their own."""

    ordinals: Ordinals = Ordinals()
    service_name: str = ""
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSet(meta.ApiObject):
    """A stateful set."""

    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)


class Deployment(meta.ApiObject):
    """A deployment."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)


class DaemonSetSpec(meta.ApiStruct):
    """The template of the pod for every eligible node."""

    selector: meta.LabelSelector | None = None
    template: PodTemplate | None = None


class DaemonSet(meta.ApiObject):
    """A daemon set."""

    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)


class JobSpec(meta.ApiStruct):
    """The number of pods that must succeed, and of those that may run at a time.

    Each defaults to one; without ``completions`` one success is enough.
    """

    parallelism: meta.Int32 | None = None
    completions: meta.Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False
    template: PodTemplate | None = None


class JobStatus(meta.ApiStruct):
    """The progress of a job; ``completed_indexes`` is written as "0-2,5"."""

    succeeded: meta.Int32 = 0
    completed_indexes: str = ""
    conditions: tuple[meta.Condition, ...] = ()


class Job(meta.ApiObject):
    """A job."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
"""A kind with a pod template."""
