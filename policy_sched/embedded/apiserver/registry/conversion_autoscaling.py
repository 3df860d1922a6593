"""Horizontal pod autoscalers as autoscaling/v1 has them: one target, the processors' utilization.

Other metrics are kept in an annotation there. (pkg/apis/autoscaling/v1/conversion.go; the store
keeps autoscaling/v2.)
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import bad_request, encoded
from policy_sched.manifests import Plain

_TARGET: Final = "targetCPUUtilizationPercentage"
_CURRENT: Final = "currentCPUUtilizationPercentage"
_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR: Final = "autoscaling.alpha.kubernetes.io/behavior"


def shown_v1(data: Plain) -> Plain:
    """Return an autoscaler as v1 has it; the argument is used up."""
    spec, status = dict(data.get("spec") or {}), dict(data.get("status") or {})
    metrics = _list(spec.pop("metrics", None))
    others = [one for one in metrics if _utilization(one, "target") is None]
    targets = [one for one in metrics if one not in others]
    if targets:
        spec[_TARGET] = _utilization(targets[0], "target")
    found = {**data, "spec": spec}
    annotations = dict(data["metadata"].get("annotations") or {})
    if others:
        annotations[_METRICS] = encoded(others).decode()
    if behavior := spec.pop("behavior", None):
        annotations[_BEHAVIOR] = encoded(behavior).decode()
    if annotations:
        found["metadata"] = {**data["metadata"], "annotations": annotations}
    if status:
        current = [
            _utilization(one, "current") for one in _list(status.pop("currentMetrics", None))
        ]
        status.pop("conditions", None)
        known = [one for one in current if one is not None]
        found["status"] = {**status, **({_CURRENT: known[0]} if known else {})}
    return found


def kept_v1(data: Plain) -> Plain:
    """Return what a client sent as v1 as it is stored. Raises ApiError if it cannot be read."""
    spec = data.get("spec")
    if not isinstance(spec, dict):
        return data
    spec = dict(spec)
    metrics: list[Any] = []
    if (target := spec.pop(_TARGET, None)) is not None:
        aim = {"type": "Utilization", "averageUtilization": target}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": aim}})
    annotations = dict(data["metadata"].get("annotations") or {})
    metrics += _list(_read(annotations.pop(_METRICS, "[]"), _METRICS))
    behavior = _read(annotations.pop(_BEHAVIOR, "null"), _BEHAVIOR)
    found: Plain = {**data, "spec": spec}
    if metrics:
        spec["metrics"] = metrics
    if behavior:
        spec["behavior"] = behavior
    meta = {key: value for key, value in data["metadata"].items() if key != "annotations"}
    found["metadata"] = {**meta, **({"annotations": annotations} if annotations else {})}
    status = data.get("status")
    if isinstance(status, dict) and _CURRENT in status:
        reached = {"averageUtilization": status[_CURRENT]}
        current = {"type": "Resource", "resource": {"name": "cpu", "current": reached}}
        rest = {key: value for key, value in status.items() if key != _CURRENT}
        found["status"] = {**rest, "currentMetrics": [current]}
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read(text: str, annotation: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise bad_request(f"annotation {annotation} cannot be read: {error}") from None


def _utilization(metric: Any, field: str) -> int | None:
    """Return the utilization of processors that a metric asks for or has reached."""
    try:
        source = metric["resource"]
        found: int | None = source[field]["averageUtilization"] if source["name"] == "cpu" else None
    except (KeyError, TypeError):
        return None
    return found
