"""Checks of nodes, storage, services, configuration, quotas and priorities."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from policy_sched.embedded.apiserver.validation.problems import (
    IMMUTABLE,
    Problems,
    check_taints,
    inside,
    items,
)
from policy_sched.manifests import Plain
from policy_sched.model import formats, nanos

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_QUOTAS: Final = _STANDARD | frozenset({
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "requests.cpu",
    "requests.memory", "requests.storage", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage",
})  # fmt: skip
_HUGE: Final = "hugepages-"
_WHOLE: Final = 10**9
_NOT_KNOWN: Final = "must be a standard resource type or fully qualified"


def check_requirements(problems: Problems, at: str, given: Any) -> None:
    """Check requests and limits of a container or a pod."""
    requests, limits = inside(given, "requests") or {}, inside(given, "limits") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _check_container_resource(problems, f"{at}.{field}", name)
            check_amount(problems, f"{at}.{field}[{name}]", name, amount)
    for name, amount in requests.items():
        here = f"{at}.requests"
        limit = limits.get(name)
        if limit is None:
            if not _overcommits(name):
                why = "Limit must be set for non overcommitable resources"
                problems.required(f"{at}.limits", why)
        elif nanos(amount) > nanos(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
            problems.invalid(here, str(amount), why)
        elif not _overcommits(name) and nanos(amount) != nanos(limit):
            why = f"must be equal to {name} limit of {limit}"
            problems.invalid(here, str(amount), why)


def _overcommits(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE)


def _check_container_resource(problems: Problems, at: str, name: str) -> None:
    problems.each(at, name, formats.qualified(name))
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        problems.invalid(at, name, "must be a standard resource for containers")


def check_amount(problems: Problems, at: str, name: str, amount: Any) -> None:
    """Check the amount of a resource: not negative, and whole where there are no parts."""
    value = nanos(amount)
    if value < 0:
        problems.invalid(at, str(amount), formats.NOT_NEGATIVE)
    elif value % _WHOLE and not _overcommits(name):
        problems.invalid(at, amount, "must be an integer")


def check_quota(problems: Problems, at: str, hard: Any) -> None:
    """Check what a quota limits."""
    for name, amount in (hard if isinstance(hard, dict) else {}).items():
        here = f"{at}[{name}]"
        problems.each(here, name, formats.qualified(name))
        if "/" not in name and name not in _OF_QUOTAS and _HUGE not in name:
            problems.invalid(here, name, "must be a standard resource for quota")
        _check_readable(problems, here, amount)


def _check_readable(problems: Problems, at: str, amount: Any) -> None:
    try:
        if nanos(amount) < 0:
            problems.invalid(at, str(amount), formats.NOT_NEGATIVE)
    except (ValueError, TypeError):
        problems.invalid(at, amount, "must be a quantity")


MOST_DATA: Final = 1024 * 1024
"""Bytes that a config map or a secret may have."""
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SERVICES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_SPECIFIES: Final = frozenset({
    "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
    "mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName",
})  # fmt: skip
"""Fields of a volume that are no source."""
_CLAIM_WORDS: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)


def check_node(problems: Problems, data: Plain) -> None:
    """Check a node."""
    taints = [one for _, one in items(inside(data.get("spec"), "taints"))]
    check_taints(problems, "spec.taints", taints)


def check_config_map(problems: Problems, data: Plain) -> None:
    """Check a config map."""
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (data.get(field) or {}).items():
            problems.each(f"{field}[{key}]", key, formats.config_key(key))
            size += len(str(value))
            if field == "data" and key in (data.get("binaryData") or {}):
                why = "duplicate of key present in binaryData"
                problems.invalid(f"data[{key}]", key, why)
    if size > MOST_DATA:
        problems.too_long("", MOST_DATA)


def check_secret(problems: Problems, data: Plain) -> None:
    """Check a secret."""
    size = 0
    for key, value in (data.get("data") or {}).items():
        problems.each(f"data[{key}]", key, formats.config_key(key))
        try:
            size += len(base64.b64decode(str(value), validate=True))
        except binascii.Error:
            problems.invalid(f"data[{key}]", "<secret contents redacted>", "must be base64")
    if size > MOST_DATA:
        problems.too_long("data", MOST_DATA)
    if data.get("type") == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in (data.get("data") or {}):
                problems.required(f"data[{key}]")


def change_immutable(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a config map or a secret that may be immutable, and of a secret's type."""
    if old.get("type") != new.get("type"):
        problems.invalid("type", new.get("type"), IMMUTABLE)
    if not old.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if (old.get(field) or None) != (new.get(field) or None):
            problems.forbidden(field, "field is immutable when `immutable` is set")


def check_service(problems: Problems, data: Plain) -> None:
    """Check a service."""
    spec = data.get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    if kind not in _SERVICES:
        problems.unsupported("spec.type", kind, _SERVICES)
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        problems.required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        problems.required("spec.externalName")
    names: set[str] = set()
    for place, one in items(ports):
        at, name = f"spec.ports[{place}]", one.get("name") or ""
        if not name and len(ports) > 1:
            problems.required(f"{at}.name")
        elif name:
            problems.each(f"{at}.name", name, formats.label(name))
            if name in names:
                problems.duplicate(f"{at}.name", name)
            names.add(name)
        problems.each(f"{at}.port", one.get("port") or 0, formats.port(one.get("port")))


def check_priority_class(problems: Problems, data: Plain) -> None:
    """Check a priority class."""
    policy = data.get("preemptionPolicy")
    known = ("Never", "PreemptLowerPriority")
    if policy and policy not in known:
        problems.unsupported("preemptionPolicy", policy, known)


def change_priority_class(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a priority class."""
    if (old.get("value") or 0) != (new.get("value") or 0):
        problems.forbidden("value", "may not be changed in an update.")
    if old.get("preemptionPolicy") != (new.get("preemptionPolicy") or "PreemptLowerPriority"):
        problems.invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def check_claim(problems: Problems, data: Plain) -> None:
    """Check a claim of a volume."""
    spec = data.get("spec") or {}
    if not spec.get("accessModes"):
        problems.required("spec.accessModes", "at least 1 access mode is required")
    _modes(problems, spec)
    requests = inside(spec.get("resources"), "requests") or {}
    if "storage" not in requests:
        problems.required("spec.resources[storage]")
    elif nanos(requests["storage"]) <= 0:
        why = "must be greater than zero"
        problems.invalid("spec.resources[storage]", str(requests["storage"]), why)


def change_claim(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a claim: once it is bound it may grow, no more."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    grown = [inside(one.pop("resources", None), "requests") or {} for one in (before, after)]
    for one in (before, after):
        one.pop("volumeAttributesClassName", None)
        one.setdefault("volumeMode", "Filesystem")
    if not before.get("volumeName"):
        for field in ("volumeName", "storageClassName"):  # which the binder may set
            if not before.get(field):
                before.pop(field, None)
                after.pop(field, None)
    if before != after:
        problems.forbidden("spec", _CLAIM_WORDS)
    sizes = [nanos(one.get("storage") or 0) for one in grown]
    if sizes[1] < sizes[0]:
        why = "field can not be less than status.capacity"
        problems.forbidden("spec.resources.requests.storage", why)


def _modes(problems: Problems, spec: Plain) -> None:
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            problems.unsupported("spec.accessModes", mode, _MODES)


def check_volume(problems: Problems, data: Plain) -> None:
    """Check a persistent volume."""
    spec = data.get("spec") or {}
    if not spec.get("accessModes"):
        problems.required("spec.accessModes")
    _modes(problems, spec)
    if not (spec.get("capacity") or {}).get("storage"):
        problems.required("spec.capacity")
    if not any(field not in _SPECIFIES and value is not None for field, value in spec.items()):
        problems.required("spec", "must specify a volume type")


def check_storage_class(problems: Problems, data: Plain) -> None:
    """Check a storage class."""
    if not data.get("provisioner"):
        problems.required("provisioner", "must be specified")
    for field, known in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        value = data.get(field)
        if value and value not in known:
            problems.unsupported(field, value, known)


def change_storage_class(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a storage class."""
    for field, default in (("parameters", None), ("provisioner", None)):
        if (old.get(field) or default) != (new.get(field) or default):
            problems.forbidden(field, f"updates to {field} are forbidden.")
    for field, default in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
        if (old.get(field) or default) != (new.get(field) or default):
            problems.invalid(field, new.get(field), IMMUTABLE)


def check_resource_quota(problems: Problems, data: Plain) -> None:
    """Check a quota."""
    check_quota(problems, "spec.hard", inside(data.get("spec"), "hard"))


def check_event(problems: Problems, data: Plain) -> None:
    """Check an event."""
    if data.get("eventTime") and data.get("type") not in ("Normal", "Warning"):
        problems.invalid("type", "", f"has invalid value: {data.get('type') or ''}")


def check_lease(problems: Problems, data: Plain) -> None:
    """Check a lease."""
    spec = data.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(seconds, int) and seconds <= 0:
        problems.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if isinstance(transitions, int) and transitions < 0:
        problems.invalid("spec.leaseTransitions", transitions, formats.NOT_NEGATIVE)
