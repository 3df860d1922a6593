"""NodeVolumeLimits: no more volumes of a CSI driver on a node than it can attach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

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
from policy_sched.model import ClusterEventWithHint, PodInfo
from policy_sched.plugins.volumes import events
from policy_sched.plugins.volumes.attach_limits import AttachLimits, Attachments
from policy_sched.plugins.volumes.attachable import Attachable, Resolver
from policy_sched.plugins.volumes.migration import IN_TREE
from policy_sched.plugins.volumes.volume_users import VolumePods

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
