"""NodeVolumeLimits: limits the number of a CSI driver's volumes that are attached to a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policy_sched import framework, model
from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeTable, NodeView
from policy_sched.plugins.volumes import events, listers, migration
from policy_sched.plugins.volumes.storage_view import VolumePods, with_volumes


class Attachable(NamedTuple):
    """One volume: the driver and its handle, or the claim that has no volume yet."""

    driver: str
    handle: str
    claim: str = ""


NO_VOLUMES: Final[frozenset[Attachable]] = frozenset()


class Resolver:
    """Resolves claims to volumes or classes, and in-tree disks to their drivers.

    Only nodes whose CSI drivers publish a limit have limits, and on those every in-tree
    plugin is migrated.
    """

    def __init__(self, objects: ApiObjects) -> None:
        self._lookup = listers.StorageLookup(objects)

    def new_pod(self, pod: model.PodInfo) -> tuple[frozenset[Attachable], framework.Status]:
        """Return the volumes that a pending pod needs attached, or an error status."""
        if pod.volumes is None:
            return NO_VOLUMES, framework.SUCCESS
        namespace = pod.volumes.namespace
        for use in pod.volumes.claims:
            if not use.name:
                return NO_VOLUMES, framework.Status(
                    framework.Code.ERROR, ("PersistentVolumeClaim had no name",)
                )
            claim = self._lookup.claim(namespace, use.name)
            if claim is None:
                missing = listers.not_found("persistentvolumeclaim", use.name)
                why = f"looking up PVC {namespace}/{use.name}: {missing}"
                return NO_VOLUMES, framework.Status(
                    framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (why,)
                )
            why = listers.foreign(claim, use, pod)
            if why:
                return NO_VOLUMES, framework.Status(framework.Code.ERROR, (why,))
        return self.running_pod(pod), framework.SUCCESS

    def running_pod(self, pod: model.PodInfo) -> frozenset[Attachable]:
        """Return the volumes of a pod on a node; missing claims have none."""
        if pod.volumes is None:
            return NO_VOLUMES
        attachables: set[Attachable] = set()
        for use in pod.volumes.claims:
            claim = self._lookup.claim(pod.volumes.namespace, use.name)
            if claim is not None:
                attachables.add(self._of_claim(claim))
        for source, disk in pod.volumes.disks:
            if source in migration.IN_TREE and isinstance(disk, model.DiskVolume):
                attachables.add(_of_disk(migration.IN_TREE[source], disk, {}))
        return frozenset(a for a in attachables if a.driver and (a.handle or a.claim))

    def _of_claim(self, claim: model.PersistentVolumeClaim) -> Attachable:
        name = claim.spec.volume_name
        volume = self._lookup.volume(name) if name else None
        if volume is None:
            return self._of_class(claim)
        if volume.spec.csi is not None:
            return Attachable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        migrated = migration.in_tree(volume)
        if migrated is None:
            return Attachable("", "")
        return _of_disk(*migrated, volume.metadata.labels)

    def _of_class(self, claim: model.PersistentVolumeClaim) -> Attachable:
        storage_class = self._lookup.storage_class(listers.class_of(claim))
        provisioner = storage_class.provisioner if storage_class is not None else ""
        name = f"{listers.namespace_of(claim)}/{claim.metadata.name}"
        return Attachable(migration.DRIVERS.get(provisioner, provisioner), "", name)


def _of_disk(
    plugin: migration.InTree, disk: model.DiskVolume, labels: Mapping[str, str]
) -> Attachable:
    """Return an in-tree disk as its driver's volume, without a handle if that has none."""
    try:
        return Attachable(plugin.driver, plugin.handle(disk, labels))
    except ValueError:
        return Attachable(plugin.driver, "")


UNLIMITED: Final = 2**62
"""Stands for no limit; larger than any count, without overflow in sums."""


class AttachLimits:
    """The limits of each driver by row, from CSINode objects."""

    def __init__(self, objects: ApiObjects, table: NodeTable) -> None:
        self._objects = objects
        self._table = table
        self._seen: tuple[Sequence[model.CsiNode], int] | None = None
        self._limits: dict[str, NDArray[np.int64]] = {}

    def on(self, row: int) -> bool:
        """Return whether a row's node limits any driver."""
        self._refresh()
        return any(limits[row] < UNLIMITED for limits in self._limits.values())

    def has(self, driver: str) -> bool:
        """Return whether any node limits a driver."""
        self._refresh()
        return driver in self._limits

    def of(self, driver: str) -> NDArray[np.int64]:
        """Return a driver's limit per row, shape (n,), UNLIMITED where there is none."""
        self._refresh()
        return self._limits[driver]

    def limited(self, driver: str, rows: framework.Rows) -> NDArray[np.bool_]:
        """Return which of the rows limit a driver."""
        limits = self.of(driver)
        return (limits if rows is None else limits[rows]) < UNLIMITED

    def _refresh(self) -> None:
        listed, version = self._objects.of(model.CsiNode), self._table.journal.nodes_version
        if self._seen is not None and self._seen[0] is listed and self._seen[1] == version:
            return
        self._seen = (listed, version)
        self._limits = {}
        row_of, n = self._table.row_of, self._table.n
        for node in listed:
            row = row_of.get(node.metadata.name)
            if row is None:
                continue
            for driver in node.spec.drivers:
                if driver.allocatable is None or driver.allocatable.count is None:
                    continue
                limits = self._limits.get(driver.name)
                if limits is None:
                    limits = self._limits[driver.name] = np.full(n, UNLIMITED, np.int64)
                limits[row] = driver.allocatable.count


class Attachments:
    """The volumes that VolumeAttachment objects name as attached, or about to be."""

    def __init__(self, objects: ApiObjects, table: NodeTable) -> None:
        self._objects = objects
        self._table = table
        self._seen: tuple[Sequence[object], Sequence[object], int] | None = None
        self._rows: dict[int, set[Attachable]] = {}
        self._sizes: NDArray[np.int64] = np.zeros(0, np.int64)

    def on(self, row: int) -> Iterable[Attachable]:
        """Return the volumes that are attached to a row's node."""
        self._refresh()
        return self._rows.get(row, NO_VOLUMES)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of volumes attached to each row's node, shape (n,)."""
        self._refresh()
        return self._sizes

    def _refresh(self) -> None:
        listed = self._objects.of(model.VolumeAttachment)
        volumes = self._objects.of(model.PersistentVolume) if listed else listed
        version = self._table.journal.nodes_version
        seen = self._seen
        if seen and seen[0] is listed and seen[1] is volumes and seen[2] == version:
            return
        self._seen = (listed, volumes, version)
        self._rows = {}
        self._sizes = np.zeros(self._table.n, np.int64)
        for attachment in listed:
            row = self._table.row_of.get(attachment.spec.node_name)
            name = attachment.spec.source.persistent_volume_name
            volume = self._objects.named(model.PersistentVolume, "", name) if name else None
            if row is None or volume is None or volume.spec.csi is None:
                continue
            attachable = Attachable(attachment.spec.attacher, volume.spec.csi.volume_handle)
            self._rows.setdefault(row, set()).add(attachable)
        for row, attached in self._rows.items():
            self._sizes[row] = len(attached)


class ForeignClaims:
    """Pods on rows with an ephemeral claim that belongs to another pod.

    No pod with volumes can be placed on such a row's node: kube-scheduler's filter fails there.
    Only claims and pods that changed are looked at again.
    """

    def __init__(self, objects: ApiObjects, in_use: VolumePods) -> None:
        self._lookup = listers.StorageLookup(objects)
        self._in_use = in_use
        self._changed: set[tuple[str, str]] = set()
        self._wrong: dict[tuple[str, str], dict[int, tuple[model.PodInfo, str]]] = {}
        objects.listen(model.PersistentVolumeClaim, self._note)

    def _note(self, old: model.ApiObject | None, new: model.ApiObject | None) -> None:
        changed = new or old
        assert changed is not None, "a change has an object"
        key = listers.namespace_of(changed), changed.metadata.name
        if self._in_use.owners(key):
            self._changed.add(key)

    def by_row(self) -> Mapping[int, tuple[model.PodInfo, str]]:
        """Return the rows with such pods; one of the pods, and what is wrong with it."""
        changed = self._changed | self._in_use.moved_claims()
        self._changed.clear()
        for key in changed:
            self._wrong.pop(key, None)
            claim = self._lookup.claim(*key)
            for row, pod in self._in_use.owners(key):
                why = claim and listers.foreign(claim, model.ClaimUse(key[1], ephemeral=True), pod)
                if why:
                    self._wrong.setdefault(key, {})[row] = pod, why
        if not self._wrong:
            return {}
        return {row: why for wrong in self._wrong.values() for row, why in wrong.items()}


NAME: Final = "NodeVolumeLimits"
REASON_EXCEEDED: Final = "node(s) exceed max volume count"

FAILED: Final = 2
"""The code of rows on which the filter fails."""
_EXCEEDED: Final = framework.Status(framework.Code.UNSCHEDULABLE, (REASON_EXCEEDED,))
_SKIP: Final = framework.PreFilterResult(framework.SKIP)
_ASK: Final = framework.PreFilterResult()


class NodeVolumeLimits:
    """Counts the volumes that are attached to a node or will be, by driver.

    Counting reads claims and volumes of every pod on a node, so it is done only if
    all the claims and disks there, each counted as a volume of the driver, would
    exceed the limit.
    """

    def __init__(self, args: Mapping[str, object], handle: framework.Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._table = handle.nodes
        self._resolver = Resolver(handle.objects)
        self._limits = AttachLimits(handle.objects, handle.nodes)
        self._attachments = Attachments(handle.objects, handle.nodes)
        self._in_use = VolumePods(handle.nodes)
        self._foreign = ForeignClaims(handle.objects, self._in_use)

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Return the signature: the volumes of the pod and of the pods on a node."""
        return framework.Signature(frozenset(), framework.Scope.NODE, keys=(listers.VOLUMES,))

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Register the events that can make a rejected pod schedulable."""
        return events.LIMITS

    @framework.hookimpl
    def pre_filter(self, pod: model.PodInfo) -> framework.PreFilterResult:
        """Skip pods without volumes that a CSI driver could attach."""
        volumes = pod.volumes
        if volumes is None:
            return _SKIP
        if volumes.claims or any(disk.source in migration.IN_TREE for disk in volumes.disks):
            return _ASK
        return _SKIP

    @framework.hookimpl
    def filter(
        self, pod: model.PodInfo, rows: framework.Rows, nodes: NodeView
    ) -> framework.FilterResult:
        """Reject nodes whose limit the pod's volumes would exceed."""
        size = self._table.n if rows is None else rows.size
        wanted, status = self._resolver.new_pod(pod)
        if status.code is framework.Code.ERROR:
            return framework.FilterResult(None, framework.PASSES.describe, status.message())
        if not status.ok:
            return framework.FilterResult.of(np.ones(size, np.int16), status)
        counts = Counter(volume.driver for volume in wanted)
        limited = [driver for driver in counts if self._limits.has(driver)]
        foreign_on = self._foreign.by_row() if wanted else {}
        if not limited and not foreign_on:
            return framework.PASSES
        suspects = np.zeros(size, np.bool_)
        kept = rows is None and nodes is self._table
        for driver in limited:
            limits = self._limits.of(driver)
            if kept:
                most = self._in_use.sizes() + self._attachments.sizes()
                suspects |= most + counts[driver] > limits
            else:
                suspects |= self._limits.limited(driver, rows)
        codes = np.zeros(size, np.int16)
        for i in np.flatnonzero(suspects).tolist():
            row = i if rows is None else int(rows[i])
            codes[i] = self._exceeds(nodes, row, wanted)
        if not foreign_on:
            return framework.FilterResult.of(codes, _EXCEEDED)
        for row, (other, _) in foreign_on.items():
            if self._limits.on(row) and other.uid in nodes.pods_on(row):
                codes[slice(row, row + 1) if rows is None else rows == row] = FAILED

        def describe(rejected: NDArray[np.intp], codes: framework.Codes) -> list[framework.Status]:
            return [
                framework.Status(framework.Code.ERROR, (foreign_on[row][1],))
                if code == FAILED
                else _EXCEEDED
                for row, code in zip(rejected.tolist(), codes.tolist(), strict=True)
            ]

        return framework.FilterResult(codes, describe, fatal=frozenset({FAILED}), names_node=False)

    def _exceeds(self, nodes: NodeView, row: int, wanted: frozenset[Attachable]) -> bool:
        used: set[Attachable] = set()
        for pod in with_volumes(nodes, row):
            used |= self._resolver.running_pod(pod)
        # An attached volume that no pod here uses counts twice, as in kube-scheduler.
        added = Counter(volume.driver for volume in wanted - used)
        there = Counter(volume.driver for volume in used.union(self._attachments.on(row)))
        return any(
            there[driver] + count > self._limits.of(driver)[row]
            for driver, count in added.items()
            if self._limits.has(driver)
        )
