"""VolumeRestrictions: disks that a node cannot attach twice, and claims for one pod only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from policy_sched import framework, model
from policy_sched.cluster.tables import NodeView
from policy_sched.plugins.volumes import events, storage_view
from policy_sched.plugins.volumes.listers import VOLUMES, StorageLookup, not_found

NAME: Final = "VolumeRestrictions"
REASON_DISK: Final = "node(s) had no available disk"
REASON_ONE_POD: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

_DISK: Final = 1
_ONE_POD: Final = 2
_STATUSES: Final = (
    framework.Status(framework.Code.UNSCHEDULABLE, (REASON_DISK,)),
    framework.Status(framework.Code.UNSCHEDULABLE, (REASON_ONE_POD,)),
)
_SKIP: Final = framework.PreFilterResult(framework.SKIP)
_ASK: Final = framework.PreFilterResult()


class OnePodClaims(msgspec.Struct, frozen=True):
    """The pod's ReadWriteOncePod claims, and the number of conflicting uses."""

    namespace: str
    names: frozenset[str]
    uses: int

    def moved(self, other: model.PodInfo, sign: int) -> OnePodClaims:
        """Return the counts with `other` added (sign 1) or removed (-1)."""
        volumes = other.volumes
        if volumes is None or volumes.namespace != self.namespace:
            return self
        count = sum(use.name in self.names for use in volumes.claims if not use.ephemeral)
        if not count:
            return self
        return OnePodClaims(self.namespace, self.names, self.uses + sign * count)


class VolumeRestrictions:
    """Checks whether disks and claims are in use, on the node and in the cluster."""

    def __init__(self, args: Mapping[str, object], handle: framework.Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._table = handle.nodes
        self._lookup = StorageLookup(handle.objects)
        self._in_use = storage_view.VolumePods(handle.nodes)

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Return the signature: claims, disks, and the pods everywhere that use them."""
        return framework.Signature(frozenset(), framework.Scope.CLUSTER, keys=(VOLUMES,))

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Register the events that can make a rejected pod schedulable."""
        return events.RESTRICTIONS

    @framework.hookimpl
    def pre_filter(
        self, state: framework.CycleState, pod: model.PodInfo
    ) -> framework.PreFilterResult:
        """Count the users of the ReadWriteOncePod claims."""
        volumes = pod.volumes
        if volumes is None:
            return _SKIP
        names = set()
        for use in volumes.claims:
            if use.ephemeral:
                continue
            claim = self._lookup.claim(volumes.namespace, use.name)
            if claim is None:
                why = not_found("persistentvolumeclaim", use.name)
                return framework.PreFilterResult(
                    framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (why,))
                )
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                names.add(use.name)
        # A ReadWriteOncePod claim counts once, even if several volumes name it.
        uses = sum(self._in_use.uses(volumes.namespace, name) > 0 for name in names)
        if not uses and not storage_view.has_exclusive_disk(volumes):
            return _SKIP
        state.write(OnePodClaims(volumes.namespace, frozenset(names), uses))
        return _ASK

    @framework.hookimpl
    def add_pod(self, state: framework.CycleState, other: model.PodInfo) -> framework.Status:
        """Add `other`."""
        return _move(state, other, 1)

    @framework.hookimpl
    def remove_pod(self, state: framework.CycleState, other: model.PodInfo) -> framework.Status:
        """Remove `other`."""
        return _move(state, other, -1)

    @framework.hookimpl
    def filter(
        self, state: framework.CycleState, pod: model.PodInfo, rows: framework.Rows, nodes: NodeView
    ) -> framework.FilterResult:
        """Reject nodes where a disk is in use, and all nodes while a claim is."""
        claims = state.read(OnePodClaims)
        taken = claims is not None and claims.uses > 0
        size = self._table.n if rows is None else rows.size
        codes = np.full(size, _ONE_POD if taken else 0, np.int16)
        if pod.volumes is not None and storage_view.has_exclusive_disk(pod.volumes):
            codes[self._with_taken_disks(pod.volumes, rows, nodes)] = _DISK
        return framework.FilterResult.of(codes, *_STATUSES)

    def _with_taken_disks(
        self, volumes: model.PodVolumes, rows: framework.Rows, nodes: NodeView
    ) -> list[int]:
        """Return the positions of rows on which a pod uses a disk of `volumes`."""
        if rows is None and nodes is self._table:
            candidates = iter(self._in_use.rows())
        else:
            candidate_rows = range(self._table.n) if rows is None else rows.tolist()
            candidates = (
                (i, storage_view.with_volumes(nodes, row)) for i, row in enumerate(candidate_rows)
            )
        return [
            index
            for index, pods in candidates
            if any(
                p.volumes is not None and storage_view.pods_conflict(volumes, p.volumes)
                for p in pods
            )
        ]


def _move(state: framework.CycleState, other: model.PodInfo, sign: int) -> framework.Status:
    claims = state.read(OnePodClaims)
    if claims is not None:
        state.write(claims.moved(other, sign))
    return framework.SUCCESS
