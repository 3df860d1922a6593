"""What the API server fills in where a workload, a service or a volume does not say it.

(The SetDefaults functions of apps/v1, batch/v1 and core/v1. Pod templates stay as they are: a
pod is completed when it is made.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.admission.device_defaults import KINDS, fill_in_claim
from policy_sched.manifests import Plain

_ROLLING: Final = "RollingUpdate"
_QUARTER: Final = "25%"
_REVISIONS: Final = {"revisionHistoryLimit": 10}
_DEFAULTS: Final[dict[str, Plain]] = {
    "Deployment": {"replicas": 1, **_REVISIONS, "progressDeadlineSeconds": 600},
    "ReplicaSet": {"replicas": 1},
    "ReplicationController": {"replicas": 1},
    "StatefulSet": {"replicas": 1, "podManagementPolicy": "OrderedReady", **_REVISIONS},
    "DaemonSet": _REVISIONS,
    "CronJob": {
        "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
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
