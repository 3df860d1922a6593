"""VolumeZone: rejects nodes outside the zone and region of a pod's bound volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from policy_sched import framework
from policy_sched.model import ClusterEventWithHint, PodInfo
from policy_sched.plugins.volumes import events, listers
from policy_sched.plugins.volumes.node_labels import NodeLabels
from policy_sched.plugins.volumes.storage_view import TOPOLOGY_LABELS, Topology, topologies_of

NAME: Final = "VolumeZone"
REASON_CONFLICT: Final = "node(s) had no available volume zone"

_CONFLICT: Final = framework.Status(
    framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON_CONFLICT,)
)
_SKIP: Final = framework.PreFilterResult(framework.SKIP)
_ASK: Final = framework.PreFilterResult()


class Topologies(tuple[Topology, ...]):
    """The topologies of the pod's volumes, found by PreFilter."""


class VolumeZone:
    """Compares labels of bound volumes with those of nodes; unbound claims have no volume yet."""

    def __init__(self, args: Mapping[str, object], handle: framework.Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._table = handle.nodes
        self._labels = NodeLabels(handle.nodes)
        self._lookup = listers.StorageLookup(handle.objects)

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Return the signature: claims and node labels; other changes are in the journal."""
        return framework.Signature(frozenset(), framework.Scope.STATIC, keys=(listers.VOLUMES,))

    @framework.hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register the events that can make a rejected pod schedulable."""
        return events.ZONE

    @framework.hookimpl
    def pre_filter(self, state: framework.CycleState, pod: PodInfo) -> framework.PreFilterResult:
        """Collect the labels of the pod's volumes; skip if they have none."""
        wanted = self._topologies(pod)
        if isinstance(wanted, framework.Status):
            return framework.PreFilterResult(wanted)
        if not wanted:
            return _SKIP
        state.write(wanted)
        return _ASK

    @framework.hookimpl
    def filter(
        self, state: framework.CycleState, pod: PodInfo, rows: framework.Rows
    ) -> framework.FilterResult:
        """Reject nodes in another zone or region than a volume."""
        topologies = state.read(Topologies)
        if topologies is None:  # PreFilter is disabled: upstream's filter looks then
            wanted = self._topologies(pod)
            if isinstance(wanted, framework.Status):
                size = self._table.n if rows is None else rows.size
                return framework.FilterResult.of(np.ones(size, np.int16), wanted)
            topologies = wanted
        if not topologies:
            return framework.PASSES
        labels = self._labels
        somewhere = np.zeros(self._table.n, np.bool_)
        for key in TOPOLOGY_LABELS:
            somewhere |= labels.codes(key) != 0
        near = np.ones(self._table.n, np.bool_)
        for key, values in topologies:
            codes = labels.codes(key)
            today = TOPOLOGY_LABELS[key]
            if today != key:
                codes = np.where(codes != 0, codes, labels.codes(today))
            near &= labels.has_value(codes, values)
        far = (somewhere & ~near).astype(np.int16)
        return framework.FilterResult.of(far if rows is None else far[rows], _CONFLICT)

    def _topologies(self, pod: PodInfo) -> Topologies | framework.Status:
        """Return the topologies of the pod's volumes, or why no node is feasible."""
        collected: list[Topology] = []
        for use in pod.volumes.claims if pod.volumes is not None else ():
            if use.ephemeral:
                continue
            assert pod.volumes is not None, "it has claims"
            why = self._collect(pod.volumes.namespace, use.name, collected)
            if why:
                return framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (why,))
        return Topologies(collected)

    def _collect(self, namespace: str, name: str, collected: list[Topology]) -> str:
        """Add the topologies of a claim's volume; return why no node is feasible, or ""."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._lookup.claim(namespace, name)
        if claim is None:
            return listers.not_found("persistentvolumeclaim", name)
        if not claim.spec.volume_name:
            class_name = listers.class_of(claim)
            if not class_name:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            storage_class = self._lookup.storage_class(class_name)
            if storage_class is None:
                return listers.not_found("storageclass.storage.k8s.io", class_name)
            return "" if listers.waits_for_pod(storage_class) else "PersistentVolume had no name"
        volume = self._lookup.volume(claim.spec.volume_name)
        if volume is None:
            return listers.not_found("persistentvolume", claim.spec.volume_name)
        collected += topologies_of(volume)
        return ""
