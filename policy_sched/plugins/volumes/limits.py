"""NodeVolumeLimits: no more volumes of a CSI driver on a node than it can attach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import (
    PASSES,
    SKIP,
    Code,
    FilterResult,
    Handle,
    PreFilterResult,
    Rows,
    Scope,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    ClusterEventWithHint,
    CsiNode,
    PersistentVolume,
    PodInfo,
    VolumeAttachment,
)
from policy_sched.plugins.volumes import events
from policy_sched.plugins.volumes.attachable import Attachable, Resolver
from policy_sched.plugins.volumes.migration import IN_TREE
from policy_sched.plugins.volumes.volume_users import VolumePods

UNLIMITED: Final = 2**62
"""Stands for no limit; larger than any count, and a count can be added to it."""

_NONE: Final[frozenset[Attachable]] = frozenset()


class AttachLimits:
    """The limits of each driver by row, from CSINode objects."""

    def __init__(self, objects: ApiObjects, table: NodeTable) -> None:
        self._objects = objects
        self._table = table
        self._seen: tuple[Sequence[CsiNode], int] | None = None
        self._limits: dict[str, NDArray[np.int64]] = {}

    def has(self, driver: str) -> bool:
        """Return whether any node limits a driver."""
        self._refresh()
        return driver in self._limits

    def of(self, driver: str) -> NDArray[np.int64]:
        """Return a driver's limit per row, shape (n,), UNLIMITED where there is none."""
        self._refresh()
        return self._limits[driver]

    def known(self, driver: str, rows: Rows) -> NDArray[np.bool_]:
        """Return which of the rows limit a driver."""
        limits = self.of(driver)
        return (limits if rows is None else limits[rows]) < UNLIMITED

    def _refresh(self) -> None:
        listed, version = self._objects.of(CsiNode), self._table.static_version
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
        return self._rows.get(row, _NONE)

    def sizes(self) -> NDArray[np.int64]:
        """Return how many volumes are attached to each row's node, shape (n,)."""
        self._refresh()
        return self._sizes

    def _refresh(self) -> None:
        listed = self._objects.of(VolumeAttachment)
        volumes = self._objects.of(PersistentVolume) if listed else listed
        version = self._table.static_version
        seen = self._seen
        if seen and seen[0] is listed and seen[1] is volumes and seen[2] == version:
            return
        self._seen = (listed, volumes, version)
        self._rows = {}
        self._sizes = np.zeros(self._table.n, np.int64)
        for attachment in listed:
            row = self._table.row_of.get(attachment.spec.node_name)
            name = attachment.spec.source.persistent_volume_name
            volume = self._objects.named(PersistentVolume, "", name) if name else None
            if row is None or volume is None or volume.spec.csi is None:
                continue
            one = Attachable(attachment.spec.attacher, volume.spec.csi.volume_handle)
            self._rows.setdefault(row, set()).add(one)
        for row, attached in self._rows.items():
            self._sizes[row] = len(attached)


NAME: Final = "NodeVolumeLimits"
REASON_EXCEEDED: Final = "node(s) exceed max volume count"

_EXCEEDED: Final = Status(Code.UNSCHEDULABLE, (REASON_EXCEEDED,))
_SKIP: Final = PreFilterResult(SKIP)
_ASK: Final = PreFilterResult()


class NodeVolumeLimits:
    """Counts the volumes that are attached to a node or will be, by driver.

    Counting needs claims and volumes of every pod on a node, so it is done only where it could
    matter: where all the claims and disks there, each taken for a volume of the driver, would
    exceed the limit.
    """

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._table = handle.nodes
        self._resolver = Resolver(handle.objects)
        self._limits = AttachLimits(handle.objects, handle.nodes)
        self._attachments = Attachments(handle.objects, handle.nodes)
        self._in_use = VolumePods(handle.nodes)

    @hookimpl
    def sign_pod(self) -> Signature:
        """Read the volumes of the pod and of the pods on a node."""
        return Signature(frozenset({("volumes",)}), Scope.NODE)

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Name what can make a rejected pod fit."""
        return events.LIMITS

    @hookimpl
    def pre_filter(self, pod: PodInfo) -> PreFilterResult:
        """Skip pods without anything that a CSI driver could attach."""
        volumes = pod.volumes
        if volumes is None:
            return _SKIP
        if volumes.claims or any(disk.source in IN_TREE for disk in volumes.disks):
            return _ASK
        return _SKIP

    @hookimpl
    def filter(self, pod: PodInfo, rows: Rows) -> FilterResult:
        """Refuse nodes whose limit the pod's volumes would exceed."""
        size = self._table.n if rows is None else rows.size
        wanted, status = self._resolver.new_pod(pod)
        if status.code is Code.ERROR:
            return FilterResult(None, PASSES.describe, status.message())
        if not status.ok:
            return FilterResult.of(np.ones(size, np.int16), status)
        counts = Counter(volume.driver for volume in wanted)
        limited = [driver for driver in counts if self._limits.has(driver)]
        if not limited:
            return PASSES
        suspects = np.zeros(size, np.bool_)
        kept = rows is None and self._table.hypothesis is None
        for driver in limited:
            limits = self._limits.of(driver)
            if kept:
                most = self._in_use.sizes() + self._attachments.sizes()
                suspects |= most + counts[driver] > limits
            else:
                suspects |= self._limits.known(driver, rows)
        codes = np.zeros(size, np.int16)
        for place in np.flatnonzero(suspects).tolist():
            row = place if rows is None else int(rows[place])
            codes[place] = self._exceeds(row, wanted)
        return FilterResult.of(codes, _EXCEEDED)

    def _exceeds(self, row: int, wanted: frozenset[Attachable]) -> bool:
        used: set[Attachable] = set()
        for pod in self._in_use.on(row):
            used |= self._resolver.running_pod(pod)
        # A volume that is attached and used by no pod here counts twice, as in kube-scheduler.
        added = Counter(volume.driver for volume in wanted - used)
        there = Counter(volume.driver for volume in used.union(self._attachments.on(row)))
        return any(
            there[driver] + count > self._limits.of(driver)[row]
            for driver, count in added.items()
            if self._limits.has(driver)
        )
