"""In-tree volume plugins, and the CSI drivers that replace them.

The facts are those of csi-translation-lib: the driver, its handle of the volume, and its node
label for zones. All these plugins are migrated; a node's annotation lists the plugins that its
kubelet has migrated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from policy_sched import model

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
#: Separates the zones of a volume with several.
ZONE_SEPARATOR: Final = "__"

Handle: TypeAlias = Callable[[model.DiskVolume, Mapping[str, str]], str]
"""Returns the driver's handle from a disk and its volume's labels.

Raises ValueError with upstream's words where they cannot be translated.
"""


class InTree(NamedTuple):
    """One in-tree plugin; ``zone``: its driver's node label for zones, "" for the common one."""

    plugin: str
    driver: str
    zone: str
    handle: Handle


_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")


def _ebs(disk: model.DiskVolume, _labels: Mapping[str, str]) -> str:
    """Return the last part of "aws://zone/vol-1"; any other name is the driver's own."""
    name = disk.volume_id
    if not name.startswith("aws://"):
        return name
    handle = name.removeprefix("aws://").partition("/")[2].strip("/")
    if not _EBS_VOLUME.fullmatch(handle):
        wrong = f"Invalid format for AWS volume ({name})"
        raise ValueError(f"failed to translate Kubernetes ID to EBS Volume ID {wrong}")
    return handle


def _gce(disk: model.DiskVolume, labels: Mapping[str, str]) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(model.ZONE, "")).split(ZONE_SEPARATOR)
    where = f"zones/{zones[0] or 'UNSPECIFIED'}"
    if len(zones) > 1:
        where = f"regions/{_region_of(zones)}"
    return f"projects/UNSPECIFIED/{where}/disks/{disk.pd_name}"


def _region_of(zones: Sequence[str]) -> str:
    failed, regions = "failed to get region from zones", set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            wanted = "zone in unexpected format, expected: {locale}-{region}-{zone}"
            raise ValueError(f"{failed}: {wanted}, got: {zone}")
        regions.add(f"{parts[0]}-{parts[1]}")
    if len(regions) > 1:
        several = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise ValueError(f"{failed}: multiple or no regions gotten from zones, got: map[{several}]")
    return regions.pop()


IN_TREE: Final[Mapping[str, InTree]] = {
    "gce_persistent_disk": InTree(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", _gce
    ),
    "aws_elastic_block_store": InTree(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", _ebs
    ),
    "azure_disk": InTree(
        "kubernetes.io/azure-disk", "disk.csi.azure.com", "", lambda disk, _: disk.disk_uri
    ),
    "cinder": InTree(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
        lambda disk, _: disk.volume_id,
    ),
    "portworx_volume": InTree(
        "kubernetes.io/portworx-volume", "pxd.portworx.com", "", lambda disk, _: disk.volume_id
    ),
}
"""By the field of a volume with the disk."""

DRIVERS: Final[Mapping[str, str]] = {
    migration.plugin: migration.driver for migration in IN_TREE.values()
}
"""CSI driver by the name of the in-tree plugin, which is also its provisioner's name."""


def in_tree(volume: model.PersistentVolume) -> tuple[InTree, model.DiskVolume] | None:
    """Return plugin and disk of an in-tree volume, None for any other."""
    for source, plugin in IN_TREE.items():
        disk: model.DiskVolume | None = getattr(volume.spec, source)
        if disk is not None:
            return plugin, disk
    return None


def knows_migration(node: model.CsiNode, plugin: str) -> bool:
    """Return whether a node's kubelet has migrated a plugin to its CSI driver."""
    return plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def translated_affinity(
    volume: model.PersistentVolume, plugin: InTree
) -> model.NodeSelector | None:
    """Return a volume's node affinity in the form of its CSI driver.

    Zones get the driver's label. A volume without zones in its affinity has those of its labels.
    """
    affinity = volume.spec.node_affinity
    selector = affinity.required if affinity is not None else None
    if not plugin.zone:
        return selector
    terms = selector.node_selector_terms if selector is not None else ()
    used = {r.key for term in terms for r in term.match_expressions}
    named = {r.key for term in terms for r in term.match_expressions if r.values}
    labels = volume.metadata.labels
    beta = model.ZONE not in used and (
        BETA_ZONE in used or (model.ZONE not in labels and BETA_ZONE in labels)
    )
    zone = BETA_ZONE if beta else model.ZONE
    renamed = {zone: plugin.zone} | ({BETA_REGION: REGION} if beta else {})
    if zone not in named:
        del renamed[zone]
        zones = {part.strip() for part in labels.get(zone, "").split(ZONE_SEPARATOR)} - {""}
        if zones:
            added = model.NodeSelectorRequirement(plugin.zone, "In", tuple(sorted(zones)))
            terms = tuple(
                model.NodeSelectorTerm((*t.match_expressions, added), t.match_fields)
                for t in terms or (model.NodeSelectorTerm(),)
            )
    if selector is None and not terms:
        return None
    return model.NodeSelector(tuple(_renamed(term, renamed) for term in terms))


def _renamed(term: model.NodeSelectorTerm, names: Mapping[str, str]) -> model.NodeSelectorTerm:
    expressions = tuple(
        model.NodeSelectorRequirement(names.get(r.key, r.key), r.operator, r.values)
        for r in term.match_expressions
    )
    return model.NodeSelectorTerm(expressions, term.match_fields)
