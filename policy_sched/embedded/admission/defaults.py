"""Defaults of workloads, services, volumes and claims to devices, as kube-apiserver sets them.

(The SetDefaults functions of apps/v1, batch/v1, core/v1 and resource.k8s.io/v1.) Pod templates stay
as they are; a pod gets its defaults when it is created. A scheduler rejects a claim without an
allocation mode.

Nulls: kube-apiserver keeps objects as Go structs, and writes an empty list or time as null if its
field has no ``omitempty`` (k8s.io/api, types.go). Clients see this: images of a Node have names
null, a CSINode without drivers has drivers null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from policy_sched.manifests import Plain
from policy_sched.model import Kind

KINDS: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
_EXACTLY: Final = "ExactCount"


def fill_in_claim(kind: str, spec: Plain) -> None:
    """Complete the specification of a claim, or of a template of claims, in place."""
    whole = spec.get("spec") if kind == "ResourceClaimTemplate" else spec
    devices = whole.get("devices") if isinstance(whole, dict) else None
    for request in _objects(devices, "requests"):
        for wanted in _wanted(request):
            wanted["allocationMode"] = wanted.get("allocationMode") or _EXACTLY
            if wanted["allocationMode"] == _EXACTLY:
                wanted["count"] = wanted.get("count") or 1
            for toleration in _objects(wanted, "tolerations"):
                toleration["operator"] = toleration.get("operator") or "Equal"


def _wanted(request: Plain) -> Iterator[Plain]:
    """Yield what one request is for: one thing, or the first of several that there is."""
    exactly = request.get("exactly")
    if isinstance(exactly, dict):
        yield exactly
    yield from _objects(request, "firstAvailable")


def _objects(holder: Any, field: str) -> Iterator[Plain]:
    """Yield the objects of a list, as far as it is one."""
    value = holder.get(field) if isinstance(holder, dict) else None
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


_ROLLING: Final = "RollingUpdate"
_QUARTER: Final = "25%"
_REVISIONS: Final = {"revisionHistoryLimit": 10}
_DEFAULTS: Final[dict[str, Plain]] = {
    "Deployment": {"replicas": 1, **_REVISIONS, "progressDeadlineSeconds": 600},
    "ReplicaSet": {"replicas": 1},
    "ReplicationController": {"replicas": 1},
    "StatefulSet": {"replicas": 1, "podManagementPolicy": "OrderedReady", **_REVISIONS},
    "DaemonSet": _REVISIONS,
    "Service": {"type": "ClusterIP", "sessionAffinity": "None"},
    "PersistentVolume": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "PersistentVolumeClaim": {"volumeMode": "Filesystem"},
}  # fmt: skip
_STRATEGIES: Final[dict[str, tuple[str, Plain]]] = {
    "Deployment": ("strategy", {"maxUnavailable": _QUARTER, "maxSurge": _QUARTER}),
    "StatefulSet": ("updateStrategy", {"partition": 0}),
    "DaemonSet": ("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
}


def fill_in(kind: str, data: Plain) -> None:
    """Complete the specification of an object, in place; other kinds stay as they are."""
    defaults = _DEFAULTS.get(kind)
    spec = data.get("spec")
    if kind in KINDS and isinstance(spec, dict):
        fill_in_claim(kind, spec)
    if defaults is None or not isinstance(spec, dict):
        return
    _fill(spec, defaults)
    if kind in _STRATEGIES:
        field, limits = _STRATEGIES[kind]
        strategy = spec.get(field) or {}
        if isinstance(strategy, dict):
            spec[field] = {**strategy, "type": strategy.get("type") or _ROLLING}
            _fill_strategy(spec[field], limits)
    if kind == "Service":
        _fill_ports(spec.get("ports"))


def _fill(target: Plain, defaults: Plain) -> None:
    for field, value in defaults.items():
        if target.get(field) is None:
            target[field] = value


def _fill_strategy(strategy: Plain, limits: Plain) -> None:
    given = strategy.get("rollingUpdate") or {}
    if strategy["type"] == _ROLLING and isinstance(given, dict):
        strategy["rollingUpdate"] = dict(given)
        _fill(strategy["rollingUpdate"], limits)


def _fill_ports(ports: Any) -> None:
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict):
            _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


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
    values: list[Any] = [data]
    for step in path[:-1]:
        if step == "[]":
            values = [value for items in values if isinstance(items, list) for value in items]
        else:
            values = [value.get(step) for value in values if isinstance(value, dict)]
    return [value for value in values if isinstance(value, dict)]
