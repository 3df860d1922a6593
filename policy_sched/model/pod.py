"""Pods, decoded straight from API JSON: the fields that scheduling reads."""

from datetime import datetime

from msgspec import field

from policy_sched.model import meta
from policy_sched.model.quantity import Amount


class ResourceRequirements(meta.ApiStruct):
    """Requests and limits by resource name, as written."""

    requests: dict[str, Amount] = field(default_factory=dict)
    limits: dict[str, Amount] = field(default_factory=dict)


class ContainerPort(meta.ApiValue, frozen=True, gc=False):
    """A port of a container; ``host_port`` 0 uses no port of the node."""

    container_port: meta.Int32 = 0
    host_port: meta.Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(meta.ApiStruct):
    """The action when a container exits; RestartAllContainers requires a feature of the node."""

    action: str = ""


class SecurityContext(meta.ApiStruct):
    """The security settings of a pod, or of one container."""

    seccomp_profile: meta.SeccompProfile | None = None


class ContainerSpec(meta.ApiStruct):
    """A container, or an init container; an init container that restarts Always is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()
    security_context: SecurityContext | None = None


class NamedReference(meta.ApiValue, frozen=True, gc=False):
    """Something that is a name and nothing else: a scheduling gate."""

    name: str = ""


class PodResourceClaim(meta.ApiValue, frozen=True, gc=False):
    """A claim of devices that a pod uses: one that is there, or one made of a template for it."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(meta.ApiValue, frozen=True, gc=False):
    """The claim that was made for an entry of the pod; none where none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(meta.ApiValue, frozen=True, gc=False):
    """The request of a claim that serves a container's extended resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(meta.ApiValue, frozen=True, gc=False):
    """The claim that serves a pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class SchedulingGroup(meta.ApiValue, frozen=True, gc=False):
    """The pod group that a pod belongs to."""

    pod_group_name: str = ""


class ClaimVolume(meta.ApiValue, frozen=True, gc=False):
    """A volume that is a PersistentVolumeClaim of the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class ClaimTemplateSpec(meta.ApiStruct):
    """The spec of an ephemeral volume's claim."""

    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimTemplate(meta.ApiStruct):
    """A claim that is created for the pod and named after pod and volume."""

    spec: ClaimTemplateSpec = field(default_factory=ClaimTemplateSpec)


class EphemeralVolume(meta.ApiStruct):
    """A volume whose claim is created and deleted with the pod."""

    volume_claim_template: ClaimTemplate | None = None


class DiskVolume(meta.ApiValue, frozen=True, gc=False):
    """A disk that is attached by name; the fields of several providers, each reading its own."""

    pd_name: str = ""
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class IscsiVolume(meta.ApiValue, frozen=True, gc=False):
    """An iSCSI disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: meta.Int32 = 0
    read_only: bool = False


class RbdVolume(meta.ApiValue, frozen=True, gc=False):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class ImageVolume(meta.ApiValue, frozen=True, gc=False):
    """A volume with the files of a container image."""

    reference: str = ""


class CsiVolume(meta.ApiValue, frozen=True, gc=False):
    """An inline volume of a CSI driver."""

    driver: str = ""


class Volume(meta.ApiStruct):
    """One volume of a pod; at most one of the sources is set."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: DiskVolume | None = None
    aws_elastic_block_store: DiskVolume | None = None
    azure_disk: DiskVolume | None = None
    cinder: DiskVolume | None = None
    portworx_volume: DiskVolume | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None
    image: ImageVolume | None = None
    csi: CsiVolume | None = None


class PodSpec(meta.ApiStruct):
    """A pod's configuration."""

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: meta.Affinity | None = None
    tolerations: tuple[meta.Toleration, ...] = ()
    topology_spread_constraints: tuple[meta.TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[NamedReference, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    priority: meta.Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    overhead: dict[str, Amount] = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    security_context: SecurityContext | None = None
    service_account_name: str = ""
    runtime_class_name: str = ""
    termination_grace_period_seconds: meta.Int64 | None = None


class ContainerStatus(meta.ApiStruct):
    """The resources allocated to a container; used while a pod is resized in place."""

    name: str = ""
    allocated_resources: dict[str, Amount] = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodCondition(meta.Condition, frozen=True, gc=False):
    """One condition of a pod's status."""

    observed_generation: int = 0


class PodStatus(meta.ApiStruct):
    """A pod's observed state."""

    phase: str = ""
    start_time: datetime | None = None
    nominated_node_name: str = ""
    qos_class: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: dict[str, Amount] = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(meta.ApiObject):
    """A pod."""

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplate(meta.ApiStruct):
    """The template for a workload's pods."""

    metadata: meta.ObjectMeta = field(default_factory=meta.ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
