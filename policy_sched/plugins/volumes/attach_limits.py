"""How many volumes each CSI driver can attach to each node, and which are attached already.

Theory of operation: both are read from API objects, by row, and kept until an object of the kind
or a node changes; `ApiObjects.of` returns a new list exactly when that happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Rows
from policy_sched.model import CsiNode, PersistentVolume, VolumeAttachment
from policy_sched.plugins.volumes.attachable import Attachable

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
        """Tell whether any node limits a driver."""
        self._refresh()
        return driver in self._limits

    def of(self, driver: str) -> NDArray[np.int64]:
        """Return a driver's limit per row, shape (n,), UNLIMITED where there is none."""
        self._refresh()
        return self._limits[driver]

    def known(self, driver: str, rows: Rows) -> NDArray[np.bool_]:
        """Tell which of the asked rows limit a driver."""
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
    """The volumes that VolumeAttachment objects say are attached, or about to be."""

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
