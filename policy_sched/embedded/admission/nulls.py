"""The nulls that kube-apiserver writes into objects.

kube-apiserver keeps objects as Go structs. A list or a time that is empty is written as null where
its field has no ``omitempty`` (k8s.io/api, types.go), and clients see it: a Node has images whose
names are null, a CSINode without drivers has drivers null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from policy_sched.manifests import Plain
from policy_sched.model import Kind

_POD_TIMES: Final = (
    "status.conditions[].lastProbeTime",
    "status.conditions[].lastTransitionTime",
)
_TRANSITION: Final = ("status.conditions[].lastTransitionTime",)
_TEMPLATE: Final = "spec.template.spec.volumes[].projected.sources"
_REQUESTS: Final = "devices.requests"

WRITTEN_AS_NULL: Final[dict[Kind, tuple[str, ...]]] = {
    ("v1", "Pod"): (*_POD_TIMES, "spec.volumes[].projected.sources"),
    ("v1", "PodTemplate"): ("template.spec.volumes[].projected.sources",),
    ("v1", "Node"): (
        "status.conditions[].lastHeartbeatTime",
        *_TRANSITION,
        "status.images[].names",
    ),
    ("v1", "PersistentVolumeClaim"): _POD_TIMES,
    ("v1", "ReplicationController"): (*_TRANSITION, _TEMPLATE),
    ("v1", "LimitRange"): ("spec.limits",),
    ("apps/v1", "ReplicaSet"): (*_TRANSITION, _TEMPLATE),
    ("apps/v1", "StatefulSet"): (*_TRANSITION, _TEMPLATE),
    ("apps/v1", "DaemonSet"): (*_TRANSITION, _TEMPLATE),
    ("apps/v1", "Deployment"): (
        "status.conditions[].lastUpdateTime",
        *_TRANSITION,
        _TEMPLATE,
    ),
    ("batch/v1", "Job"): (*_POD_TIMES, _TEMPLATE),
    ("batch/v1", "CronJob"): (f"spec.jobTemplate.{_TEMPLATE}",),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): (*_TRANSITION, "status.currentMetrics"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"): (
        "status.conditions[].lastUpdateTime",
        *_TRANSITION,
    ),
    ("discovery.k8s.io/v1", "EndpointSlice"): ("endpoints", "ports"),
    ("events.k8s.io/v1", "Event"): (
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
    ),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("rules",),
    ("rbac.authorization.k8s.io/v1", "Role"): ("rules",),
    ("resource.k8s.io/v1", "ResourceClaim"): (f"spec.{_REQUESTS}",),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): (f"spec.spec.{_REQUESTS}",),
    ("resource.k8s.io/v1", "ResourceSlice"): ("spec.devices",),
    ("storage.k8s.io/v1", "CSINode"): ("spec.drivers", "spec.drivers[].topologyKeys"),
    ("storage.k8s.io/v1", "StorageClass"): ("allowedTopologies[].matchLabelExpressions[].values",),
}
"""Fields that are null where they are empty, by kind; ``[]`` stands for each item of a list."""

_PATHS: Final = {
    kind: tuple(tuple(path.replace("[]", ".[]").split(".")) for path in paths)
    for kind, paths in WRITTEN_AS_NULL.items()
}


def write_nulls(kind: Kind, data: Plain) -> None:
    """Write null into an object, in place, where kube-apiserver does."""
    for path in _PATHS.get(kind, ()):
        if path[0] == "spec" and len(path) == 2 and data.get("spec") is None:
            data["spec"] = {}  # a Go struct is always there
        for here in _holders(data, path):
            if here.get(path[-1]) in ([], "", None):
                here[path[-1]] = None


def _holders(data: Plain, path: tuple[str, ...]) -> Iterable[Plain]:
    """Return the mappings that have the last step of a path as a field, or lack it."""
    found: list[Any] = [data]
    for step in path[:-1]:
        if step == "[]":
            found = [one for items in found if isinstance(items, list) for one in items]
        else:
            found = [one.get(step) for one in found if isinstance(one, dict)]
    return [one for one in found if isinstance(one, dict)]
