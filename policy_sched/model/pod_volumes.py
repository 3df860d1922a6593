"""The volumes of a pod in which a scheduler has a say: claims, and disks that are named inline."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from policy_sched.model.pod import DiskVolume, IscsiVolume, RbdVolume, Volume

Disk: TypeAlias = DiskVolume | IscsiVolume | RbdVolume

#: Fields of a volume that name a disk which only some nodes, or so many pods, can use.
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
    """A volume that names its disk; ``source`` is the field of Volume that holds it."""

    source: str
    disk: Disk


class PodVolumes(NamedTuple):
    """Claims and inline disks of one pod, in the order of its volumes; hashable.

    ``namespace`` is that of the claims. ``owner`` is the pod's UID where it has ephemeral claims,
    and empty otherwise: pods that share claims have equal PodVolumes.
    """

    namespace: str
    claims: tuple[ClaimUse, ...]
    disks: tuple[InlineDisk, ...]
    owner: str = ""


def pod_volumes(
    volumes: tuple[Volume, ...], namespace: str, pod_name: str, pod_uid: str
) -> PodVolumes | None:
    """Return the volumes of a pod in which a scheduler has a say, None if there are none."""
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
