"""Plugins of the default profile that are not built yet, and the pods that would need them.

This is the one place that names them. A pod whose decision could depend on one of them, enabled
in its profile, is refused with a message that says so; every other pod is decided without them,
as upstream decides it when such a plugin skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from policy_sched.framework.handle import Handle
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.workloads import (
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

#: Plugin to what it decides, in words for the refusal.
UNBUILT: Final[Mapping[str, str]] = {
    "PodTopologySpread": "topology spread constraints",
    "InterPodAffinity": "pod affinity and anti-affinity",
    "VolumeRestrictions": "volumes",
    "NodeVolumeLimits": "volumes",
    "VolumeBinding": "volumes",
    "VolumeZone": "volumes",
    "DynamicResources": "resource claims",
    "NodeDeclaredFeatures": "features that nodes declare",
}

#: Volume sources that a volume plugin has a say in.
_SOURCES: Final = (
    "persistent_volume_claim",
    "ephemeral",
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "iscsi",
    "rbd",
    "csi",
)

Reason = Callable[[PodInfo], str]


class Refusals:
    """Tells which pods of one profile cannot be decided yet.

    ``enabled``: names of the profile's plugins. ``objects``: the cluster's other API objects, for
    the default constraints of PodTopologySpread, which hold for pods that a Service, ReplicaSet,
    StatefulSet or ReplicationController selects.
    """

    def __init__(self, handle: Handle, enabled: Iterable[str], objects: Sequence[object]) -> None:
        self._handle = handle
        self._selectors = [s for s in (_selected(o) for o in objects) if s is not None]
        self._owners = {
            (type(o).__name__, o.metadata.namespace or "default", o.metadata.name)
            for o in objects
            if isinstance(o, (ReplicaSet, StatefulSet, ReplicationController))
        }
        names = set(enabled)
        checks: dict[str, Reason] = {
            "PodTopologySpread": self._spread,
            "InterPodAffinity": self._affinity,
            "VolumeBinding": _volumes,
            "VolumeRestrictions": _volumes,
            "NodeVolumeLimits": _volumes,
            "VolumeZone": _volumes,
            "DynamicResources": _claims,
            "NodeDeclaredFeatures": _features,
        }
        self._checks = [(name, checks[name]) for name in UNBUILT if name in names]

    def reason(self, pod: PodInfo) -> str:
        """Return why the pod cannot be decided; empty if it can."""
        for name, check in self._checks:
            why = check(pod)
            if why:
                return (
                    f"{why}, which plugin {name} decides ({UNBUILT[name]}); this version does not "
                    "have it yet, and does not guess"
                )
        return ""

    def _spread(self, pod: PodInfo) -> str:
        if pod.pod.spec.topology_spread_constraints:
            return "the pod has spec.topologySpreadConstraints"
        if self._owners and (pod.owner_kind, pod.namespace, pod.owner_name) in self._owners:
            return f"the pod belongs to {pod.owner_kind} {pod.owner_name}"
        for kind, namespace, selects in self._selectors:
            if namespace == pod.namespace and selects(pod.labels):
                return f"a {kind} selects the pod, so default spread constraints hold for it"
        return ""

    def _affinity(self, pod: PodInfo) -> str:
        if pod.has_pod_affinity:
            return "the pod has spec.affinity.podAffinity or podAntiAffinity"
        if self._handle.pods.with_affinity:
            other = next(iter(self._handle.pods.with_affinity.values()))
            return f"pod {other.key} on a node has pod affinity or anti-affinity"
        return ""


def _volumes(pod: PodInfo) -> str:
    for volume in pod.pod.spec.volumes:
        if any(getattr(volume, source) is not None for source in _SOURCES):
            return f"the pod has volume {volume.name!r}"
    return ""


def _features(pod: PodInfo) -> str:
    spec = pod.pod.spec
    for container in (*spec.init_containers, *spec.containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            return f"container {container.name!r} restarts all containers when it exits"
    return ""


def _claims(pod: PodInfo) -> str:
    return "the pod has spec.resourceClaims" if pod.pod.spec.resource_claims else ""


def _selected(
    found: object,
) -> tuple[str, str, Callable[[Mapping[str, str]], bool]] | None:
    """Return kind, namespace and predicate over labels of an object that selects pods."""
    if isinstance(found, (Service, ReplicationController)):
        wanted = found.spec.selector
        if not wanted:
            return None

        def by_labels(labels: Mapping[str, str]) -> bool:
            return all(labels.get(key) == value for key, value in wanted.items())

        kind = type(found).__name__
        return kind, found.metadata.namespace or "default", by_labels
    return None
