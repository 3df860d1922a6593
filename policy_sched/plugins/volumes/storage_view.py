"""The cluster's storage for the binding search, including assumptions."""

from __future__ import annotations

import numpy as np

from policy_sched.framework import Handle
from policy_sched.model import (
    Amount,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    quantity,
)
from policy_sched.plugins.volumes.listers import STORAGE, StorageLookup
from policy_sched.plugins.volumes.migration import (
    InTree,
    in_tree,
    knows_migration,
    translated_affinity,
)
from policy_sched.plugins.volumes.node_labels import Mask, NodeLabels
from policy_sched.plugins.volumes.volume_index import AssumeCache, VolumeIndex, selector_of


class StorageView:
    """Claims and volumes as assumed, and the nodes that can reach or provision volumes.

    ``api`` has no assumptions. ``offers`` are the free and reserved volumes.
    """

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._objects = handle.objects
        self.api = StorageLookup(handle.objects)
        self.labels = NodeLabels(handle.nodes)
        journal = handle.nodes.journal
        self.assumed_claims = AssumeCache(PersistentVolumeClaim, handle.objects, journal)
        self.assumed_volumes = AssumeCache(PersistentVolume, handle.objects, journal)
        self.offers = VolumeIndex(handle.objects, self.assumed_volumes)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim as assumed."""
        return self.assumed_claims.get(namespace, name)

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume as assumed."""
        return self.assumed_volumes.get("", name)

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""
        return self.api.storage_class(name)

    def row_mask(self, node: str) -> Mask:
        """Return the mask of one node, empty if there is no such node."""
        mask = np.zeros(self._table.n, np.bool_)
        row = self._table.row_of.get(node)
        if row is not None:
            mask[row] = True
        return mask

    def reach(self, volume: PersistentVolume) -> Mask:
        """Return the rows that reach a volume.

        An in-tree volume has the affinity of its CSI driver on nodes whose kubelet migrated the
        plugin.
        """
        plain = self.labels.affinity(selector_of(volume))
        found = in_tree(volume)
        if found is None:
            return plain
        migrated = self._migrated(found[0])
        if not migrated.any():
            return plain
        moved = self.labels.affinity(translated_affinity(volume, found[0]))
        answer: Mask = np.where(migrated, moved, plain)
        return answer

    def with_capacity(
        self, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> Mask | None:
        """Return the topologies with capacity for a claim; None if the driver publishes none."""
        requested = claim.spec.resources.requests.get(STORAGE)
        driver = self._objects.named(CsiDriver, "", storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        size = quantity(requested).value()
        mask = np.zeros(self._table.n, np.bool_)
        for one in self._objects.of(CsiStorageCapacity):
            if one.storage_class_name == storage_class.metadata.name:
                limit = largest_volume(one)
                if limit is not None and quantity(limit).value() >= size:
                    mask |= self.labels.selected(one.node_topology)
        return mask

    def _migrated(self, plugin: InTree) -> Mask:
        mask = np.zeros(self._table.n, np.bool_)
        for node in self._objects.of(CsiNode):
            row = self._table.row_of.get(node.metadata.name)
            if row is not None and knows_migration(node, plugin.plugin):
                mask[row] = True
        return mask


def largest_volume(capacity: CsiStorageCapacity) -> Amount | None:
    """Return the size of the largest possible volume; the volume limit takes precedence."""
    limit = capacity.maximum_volume_size
    return capacity.capacity if limit is None else limit
