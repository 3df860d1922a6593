"""What a pod's volumes are to the CSI driver that attaches them."""

from __future__ import annotations

from typing import Final, NamedTuple

from policy_sched.cluster import ApiObjects
from policy_sched.framework import SUCCESS, Code, Status
from policy_sched.model import DiskVolume, PersistentVolumeClaim, PodInfo
from policy_sched.plugins.volumes.listers import (
    StorageLookup,
    class_of,
    foreign,
    namespace_of,
    not_found,
)
from policy_sched.plugins.volumes.migration import DRIVERS, IN_TREE, in_tree


class Attachable(NamedTuple):
    """One volume: the driver and its own name for it, or the claim that has no volume yet."""

    driver: str
    handle: str
    claim: str = ""


NO_VOLUMES: Final[frozenset[Attachable]] = frozenset()


class Resolver:
    """Follows claims to volumes or classes, and in-tree disks to their drivers.

    Only nodes whose CSI drivers publish a limit have limits, and on those every in-tree
    plugin is migrated.
    """

    def __init__(self, objects: ApiObjects) -> None:
        self._lookup = StorageLookup(objects)

    def new_pod(self, pod: PodInfo) -> tuple[frozenset[Attachable], Status]:
        """Return the volumes that a pending pod needs attached, or why that is unknown."""
        if pod.volumes is None:
            return NO_VOLUMES, SUCCESS
        namespace = pod.volumes.namespace
        for use in pod.volumes.claims:
            if not use.name:
                return NO_VOLUMES, Status(Code.ERROR, ("PersistentVolumeClaim had no name",))
            claim = self._lookup.claim(namespace, use.name)
            if claim is None:
                missing = not_found("persistentvolumeclaim", use.name)
                why = f"looking up PVC {namespace}/{use.name}: {missing}"
                return NO_VOLUMES, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (why,))
            why = foreign(claim, use, pod)
            if why:
                return NO_VOLUMES, Status(Code.ERROR, (why,))
        return self.running_pod(pod), SUCCESS

    def running_pod(self, pod: PodInfo) -> frozenset[Attachable]:
        """Return the volumes of a pod on a node; claims that are not there are none."""
        if pod.volumes is None:
            return NO_VOLUMES
        found: set[Attachable] = set()
        for use in pod.volumes.claims:
            claim = self._lookup.claim(pod.volumes.namespace, use.name)
            # kube-scheduler fails if a running pod's ephemeral claim belongs to another pod; that
            # claim is just not counted here.
            if claim is not None and not foreign(claim, use, pod):
                found.add(self._of_claim(claim))
        for source, disk in pod.volumes.disks:
            if source in IN_TREE and isinstance(disk, DiskVolume):
                plugin = IN_TREE[source]
                found.add(Attachable(plugin.driver, plugin.handle(disk, {})))
        return frozenset(one for one in found if one.driver and (one.handle or one.claim))

    def _of_claim(self, claim: PersistentVolumeClaim) -> Attachable:
        name = claim.spec.volume_name
        volume = self._lookup.volume(name) if name else None
        if volume is None:
            return self._of_class(claim)
        if volume.spec.csi is not None:
            return Attachable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        found = in_tree(volume)
        if found is None:
            return Attachable("", "")
        plugin, disk = found
        return Attachable(plugin.driver, plugin.handle(disk, volume.metadata.labels))

    def _of_class(self, claim: PersistentVolumeClaim) -> Attachable:
        found = self._lookup.storage_class(class_of(claim))
        provisioner = found.provisioner if found is not None else ""
        name = f"{namespace_of(claim)}/{claim.metadata.name}"
        return Attachable(DRIVERS.get(provisioner, provisioner), "", name)
