"""Disks that two pods of one node cannot both use."""

from __future__ import annotations

from typing import Final

from policy_sched.model import DiskVolume, InlineDisk, IscsiVolume, PodVolumes, RbdVolume

#: Sources whose disks are looked at; other inline disks never conflict.
EXCLUSIVE: Final = frozenset({"gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd"})


def has_exclusive_disk(volumes: PodVolumes) -> bool:
    """Tell whether a pod names a disk that could conflict with another pod's."""
    return any(one.source in EXCLUSIVE for one in volumes.disks)


def pods_conflict(wanted: PodVolumes, held: PodVolumes) -> bool:
    """Tell whether a disk of one pod keeps another pod off its node."""
    return any(_same_disk(one, other) for one in wanted.disks for other in held.disks)


def _same_disk(one: InlineDisk, other: InlineDisk) -> bool:
    """Tell whether two volumes are one disk, and not both only read it.

    EBS volumes conflict even then.
    """
    if one.source != other.source or one.source not in EXCLUSIVE:
        return False
    if one.source == "aws_elastic_block_store":
        return _volume_id(one) == _volume_id(other)
    if one.disk.read_only and other.disk.read_only:
        return False
    match one.disk, other.disk:
        case DiskVolume() as a, DiskVolume() as b:
            return a.pd_name == b.pd_name
        case IscsiVolume() as a, IscsiVolume() as b:
            return a.iqn == b.iqn
        case RbdVolume() as a, RbdVolume() as b:
            same_image = (a.pool, a.image) == (b.pool, b.image)
            return same_image and not set(a.monitors).isdisjoint(b.monitors)
    return False


def _volume_id(one: InlineDisk) -> str:
    assert isinstance(one.disk, DiskVolume), "an EBS volume is named by its id"
    return one.disk.volume_id
