"""Volumes, claims, storage classes and CSI drivers: the fields that scheduling reads.

Of the volumes of a pod, claims and inline disks matter for scheduling.
"""

from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import field

from policy_sched.model import meta, pod
from policy_sched.model.quantity import Amount


class ClaimReference(meta.ApiValue, frozen=True, gc=False):
    """The claim that a volume is bound to, or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(meta.ApiValue, frozen=True, gc=False):
    """The nodes that can reach a volume."""

    required: meta.NodeSelector | None = None


class LocalVolume(meta.ApiValue, frozen=True, gc=False):
    """A disk of one node."""

    path: str = ""


class CsiSource(meta.ApiValue, frozen=True, gc=False):
    """A volume of a CSI driver, and its handle."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(meta.ApiStruct):
    """A volume's source, capacity, access modes and claim."""

    capacity: dict[str, Amount] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CsiSource | None = None
    local: LocalVolume | None = None
    gce_persistent_disk: pod.DiskVolume | None = None
    aws_elastic_block_store: pod.DiskVolume | None = None
    azure_disk: pod.DiskVolume | None = None
    cinder: pod.DiskVolume | None = None
    portworx_volume: pod.DiskVolume | None = None


class Phase(meta.ApiValue, frozen=True, gc=False):
    """A status with a phase only."""

    phase: str = ""


class PersistentVolume(meta.ApiObject):
    """A persistent volume."""

    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: Phase = Phase()


class PersistentVolumeClaimSpec(pod.ClaimTemplateSpec):
    """The requirements of a claim."""

    selector: meta.LabelSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(meta.ApiObject):
    """A persistent volume claim."""

    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: Phase = Phase()


class TopologyRequirement(meta.ApiValue, frozen=True, gc=False):
    """A node label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(meta.ApiValue, frozen=True, gc=False):
    """Label requirements that must all hold."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(meta.ApiObject):
    """A storage class."""

    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeCount(meta.ApiValue, frozen=True, gc=False):
    """The number of volumes that a driver can attach to a node."""

    count: meta.Int32 | None = None


class CsiNodeDriver(meta.ApiValue, frozen=True, gc=False):
    """A CSI driver on a node."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeCount | None = None


class CsiNodeSpec(meta.ApiStruct):
    """The CSI drivers of a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(meta.ApiObject):
    """A CSINode: the CSI drivers on the node of the same name."""

    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)


class CsiDriverSpec(meta.ApiStruct):
    """The capabilities of a CSI driver."""

    attach_required: bool | None = None
    storage_capacity: bool = False


class CsiDriver(meta.ApiObject):
    """A CSI driver."""

    spec: CsiDriverSpec = field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(meta.ApiObject):
    """The capacity that a driver can still provide on the nodes of a topology."""

    storage_class_name: str = ""
    node_topology: meta.LabelSelector | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class AttachmentSource(meta.ApiValue, frozen=True, gc=False):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(meta.ApiStruct):
    """The volume, the driver and the node of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(meta.ApiObject):
    """A volume attachment."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)


Disk: TypeAlias = pod.DiskVolume | pod.IscsiVolume | pod.RbdVolume

#: Fields of a volume with a disk that only some nodes, or a limited number of pods, can use.
DISK_SOURCES: Final = (
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "iscsi",
    "rbd",
    "azure_disk",
    "cinder",
    "portworx_volume",
)


class ClaimUse(NamedTuple):
    """A volume that is a claim; an ``ephemeral`` one belongs to the pod and is named after it."""

    name: str
    ephemeral: bool = False


class InlineDisk(NamedTuple):
    """An inline disk; ``source`` is its field of Volume."""

    source: str
    disk: Disk


class PodVolumes(NamedTuple):
    """Claims and inline disks of one pod, in the order of its volumes; hashable.

    ``namespace`` is that of the claims. ``owner`` is the pod's UID if it has ephemeral claims,
    and empty otherwise: pods that share claims have equal PodVolumes.
    """

    namespace: str
    claims: tuple[ClaimUse, ...]
    disks: tuple[InlineDisk, ...]
    owner: str = ""


def pod_volumes(
    volumes: tuple[pod.Volume, ...], namespace: str, pod_name: str, pod_uid: str
) -> PodVolumes | None:
    """Return the volumes of a pod that matter for scheduling, None if there are none."""
    claims: list[ClaimUse] = []
    disks: list[InlineDisk] = []
    ephemeral = False
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimUse(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            claims.append(ClaimUse(f"{pod_name}-{volume.name}", ephemeral=True))
            ephemeral = True
        else:
            disks += [
                InlineDisk(source, disk)
                for source in DISK_SOURCES
                if (disk := getattr(volume, source)) is not None
            ]
    if not claims and not disks:
        return None
    return PodVolumes(namespace, tuple(claims), tuple(disks), pod_uid if ephemeral else "")
