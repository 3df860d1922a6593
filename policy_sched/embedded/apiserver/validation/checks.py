"""Defaults and validation of an object that is created or changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from policy_sched.client.apimachinery import POD, Resource, Stored
from policy_sched.embedded.apiserver.validation import pod_groups
from policy_sched.embedded.apiserver.validation.fields import check_fields
from policy_sched.embedded.schema import IMMUTABLE, Problems, check_metadata, inside
from policy_sched.manifests import Plain
from policy_sched.model import formats, nanos

_NAMES: Final = {"Namespace": formats.label, "Service": formats.rfc1035_label}
"""Kinds whose names are not subdomains."""


def check_new(resource: Resource, data: Plain) -> None:
    """Raise ApiError with all that is wrong with an object that is to be created.

    The store checks custom objects as a whole.
    """
    if resource.custom:
        return
    problems = Problems()
    name = data["metadata"].get("name") or ""
    if name and not resource.freely_named:
        form = _NAMES.get(resource.kind, formats.subdomain)
        problems.each("metadata.name", name, form(name))
    check_metadata(problems, data["metadata"])
    check_fields(problems, resource.kind, data)
    if resource.key == POD and (data.get("spec") or {}).get("ephemeralContainers"):
        problems.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if problems.causes:
        raise problems.refusal(resource, name)


def check_change(old: Stored, data: Plain, subresource: str) -> None:
    """Raise ApiError with all that is wrong with an object's next state; status is not checked."""
    problems, resource = Problems(), old.resource
    if resource.custom:
        return
    check_metadata(problems, data["metadata"])
    if not subresource:
        check_fields(problems, resource.kind, data)
        if resource.kind in _CHANGES:
            _CHANGES[resource.kind](problems, old.data, data)
    if problems.causes:
        raise problems.refusal(resource, old.name)


def _same(problems: Problems, at: str, old: Any, new: Any) -> None:
    if old != new:
        problems.invalid(at, new, IMMUTABLE)


def _selector(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a deployment, a replica set or a daemon set."""
    before, after = (inside(side.get("spec"), "selector") for side in (old, new))
    _same(problems, "spec.selector", before, after)


_SET_CHANGES: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def _stateful_set(problems: Problems, old: Plain, new: Plain) -> None:
    before, after = (
        {k: v for k, v in (side.get("spec") or {}).items() if k not in _SET_CHANGES and v}
        for side in (old, new)
    )
    if before != after:
        *names, last = (f"'{name}'" for name in _SET_CHANGES)
        free = f"{', '.join(names)} and {last}"
        why = f"updates to statefulset spec for fields other than {free} are forbidden"
        problems.forbidden("spec", why)


def _job(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a job: of its template what is scheduled may change while it waits."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    suspended = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
    indexed = before.get("completionMode") == "Indexed"
    elastic = indexed and after.get("completions") == after.get("parallelism")
    fixed = ["selector", "completionMode"]
    fixed += [] if elastic else ["completions"]
    fixed += [] if suspended else ["template"]
    for field in fixed:
        _same(problems, f"spec.{field}", before.get(field), after.get(field))


def _immutable(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a config map or a secret that may be immutable, and of a secret's type."""
    _same(problems, "type", old.get("type"), new.get("type"))
    if not old.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if (old.get(field) or None) != (new.get(field) or None):
            problems.forbidden(field, "field is immutable when `immutable` is set")


def _priority_class(problems: Problems, old: Plain, new: Plain) -> None:
    if (old.get("value") or 0) != (new.get("value") or 0):
        problems.forbidden("value", "may not be changed in an update.")
    if old.get("preemptionPolicy") != (new.get("preemptionPolicy") or "PreemptLowerPriority"):
        problems.invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def _claim(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a claim: once it is bound it may grow, no more."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    grown = [inside(side.pop("resources", None), "requests") or {} for side in (before, after)]
    for side in (before, after):
        side.pop("volumeAttributesClassName", None)
        side.setdefault("volumeMode", "Filesystem")
    if not before.get("volumeName"):
        for field in ("volumeName", "storageClassName"):  # which the binder may set
            if not before.get(field):
                before.pop(field, None)
                after.pop(field, None)
    if before != after:
        but = "except resources.requests and volumeAttributesClassName for bound claims"
        problems.forbidden("spec", f"spec is immutable after creation {but}")
    sizes = [nanos(side.get("storage") or 0) for side in grown]
    if sizes[1] < sizes[0]:
        why = "field can not be less than status.capacity"
        problems.forbidden("spec.resources.requests.storage", why)


def _storage_class(problems: Problems, old: Plain, new: Plain) -> None:
    for field in ("parameters", "provisioner"):
        if (old.get(field) or None) != (new.get(field) or None):
            problems.forbidden(field, f"updates to {field} are forbidden.")
    for field, default in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
        if (old.get(field) or default) != (new.get(field) or default):
            problems.invalid(field, new.get(field), IMMUTABLE)


_CHANGES: Final[dict[str, Callable[[Problems, Plain, Plain], None]]] = {
    "Deployment": _selector,
    "ReplicaSet": _selector,
    "DaemonSet": _selector,
    "StatefulSet": _stateful_set,
    "Job": _job,
    "ConfigMap": _immutable,
    "Secret": _immutable,
    "PriorityClass": _priority_class,
    "PersistentVolumeClaim": _claim,
    "StorageClass": _storage_class,
    "PodGroup": pod_groups.change_spec,
    "Workload": pod_groups.change_spec,
}
"""Checks of changes, by kind."""
