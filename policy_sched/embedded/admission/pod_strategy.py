"""Changes of pods that the API server has rules of its own for: binding, conditions, updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError, Resource, Stored, timestamp
from policy_sched.manifests import Plain

MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _details(name: str, resource: Resource, kind: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": kind}


def not_found(resource: Resource, name: str) -> ApiError:
    """Return the refusal of an object that is not there."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(name, resource, resource.plural))


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return the error of an object that exists already."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(name, resource, resource.plural))


def conflict(resource: Resource, name: str, why: str, subresource: str = "") -> ApiError:
    """Return the error of a change to an object of another version."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    what = f"{plural}.{resource.group}" if resource.group else plural
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, resource, plural))


def wrong_uid(resource: Resource, namespace: str, name: str, wanted: str, real: str) -> ApiError:
    """Return the refusal of a change that was meant for another object of the same name."""
    key = "/".join(part for part in ("/registry", resource.plural, namespace, name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0,"
        f" AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted},"
        f" UID in object meta: {real}"
    )
    return conflict(resource, name, why)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """Return the refusal of an admission plugin."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(name, resource, resource.plural))


def invalid(resource: Resource, name: str, field: str, reason: str, why: str) -> ApiError:
    """Return the refusal of a field; ``reason`` is a cause's, such as FieldValueInvalid."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'{kind} "{name}" is invalid: {field}: {why}'
    details = _details(name, resource, resource.kind)
    details["causes"] = [{"reason": reason, "message": why, "field": field}]
    return ApiError(422, "Invalid", message, details)


_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels that a pod gets from its node when it is bound (the PodTopologyLabels admission)."""
_FIXED: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations`"
    " (only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
    " (allow it to be set to 1 if it was previously negative)"
)
_FREE: Final = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_FREE_WHILE_GATED: Final = ("affinity", "nodeSelector")


def bound(stored: Stored, binding: Mapping[str, Any], node: Stored | None, now: int) -> Plain:
    """Return the pod bound to the binding's target. Raises ApiError if it cannot be.

    ``node`` is the target if it is there: the API server binds to nodes that it does not know.
    """
    data, name = stored.data, stored.name
    meta, spec = data["metadata"], data["spec"]
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != stored.uid:
        raise wrong_uid(stored.resource, stored.namespace, name, uid, stored.uid)
    why = ""
    if stored.deleting:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(stored.resource, name, why, "binding")
    spec["nodeName"] = binding["target"]["name"]
    annotations = (binding.get("metadata") or {}).get("annotations")
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if node is not None:
        labels = {key: node.labels[key] for key in _TOPOLOGY if key in node.labels}
        if labels:
            meta["labels"] = {**(meta.get("labels") or {}), **labels}
    status = data["status"] = data.get("status") or {}
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"}, now)
    return data


def set_condition(status: Plain, condition: Mapping[str, Any], now: int) -> bool:
    """Set a pod's condition; return whether anything changed.

    The time of the last transition stays where the condition's status does.
    """
    wanted = {"lastProbeTime": None, "lastTransitionTime": timestamp(now), **condition}
    conditions = list(status.get("conditions") or ())
    for index, old in enumerate(conditions):
        if old.get("type") != condition["type"]:
            continue
        if old.get("status") == condition["status"]:
            wanted["lastTransitionTime"] = old.get("lastTransitionTime")
        if _compared(old) == _compared(wanted):
            return False
        conditions[index] = wanted
        break
    else:
        conditions.append(wanted)
    status["conditions"] = conditions
    return True


def _compared(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(condition.get(field) or "" for field in ("type", "status", "reason", "message"))


def check_update(stored: Stored, data: Plain) -> None:
    """Raise ApiError if an update changes what is fixed once a pod was created."""
    old = stored.data["spec"]
    new = data["spec"] = data.get("spec") or {}
    gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for gate in new.get("schedulingGates") or ():
        if gate.get("name") not in gates:
            added = f"found new scheduling gate '{gate.get('name')}'"
            why = f"Forbidden: only deletion is allowed, but {added}"
            field = "spec.schedulingGates"
            raise invalid(stored.resource, stored.name, field, "FieldValueForbidden", why)
    tolerations = set(map(_mark, new.get("tolerations") or ()))
    added_only = tolerations.issuperset(map(_mark, old.get("tolerations") or ()))
    free = (*_FREE, *_FREE_WHILE_GATED) if gates else _FREE
    if not added_only or _fixed(old, free) != _fixed(new, free):
        why = f"Forbidden: {_FIXED}"
        raise invalid(stored.resource, stored.name, "spec", "FieldValueForbidden", why)


def _mark(item: Plain) -> bytes:
    """Return what two equal mappings have in common."""
    return msgspec.json.encode(item, order="deterministic")


def _fixed(spec: Plain, free: tuple[str, ...]) -> Plain:
    """Return what of a spec must not change."""
    fixed = {key: value for key, value in spec.items() if key not in free and value}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{k: v for k, v in c.items() if k != "image"} for c in fixed[name]]
    if (grace := fixed.get("terminationGracePeriodSeconds")) is not None and grace < 0:
        fixed["terminationGracePeriodSeconds"] = 1
    return fixed


_FIELD: Final = "spec.ephemeralContainers"
_DEFAULTS: Final[Plain] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


def added_containers(stored: Stored, data: Plain) -> Plain:
    """Return a pod with the ephemeral containers that `data` has, which may only become more.

    Raises ApiError. (ValidatePodEphemeralContainersUpdate; no kubelet runs them here.)
    """
    result = stored.data
    spec = result["spec"]
    wanted = {**_by_name(stored, (data.get("spec") or {}).get("ephemeralContainers") or ())}
    for old in spec.get("ephemeralContainers") or ():
        new = wanted.get(old["name"])
        if new is None or any(new.get(key, value) != value for key, value in old.items()):
            what = "removed" if new is None else "changed"
            text = f'existing ephemeral containers "{old["name"]}" may not be {what}'
            raise _refused(stored, _FIELD, "FieldValueForbidden", f"Forbidden: {text}")
    for index, container in enumerate(wanted.values()):
        _check(stored, spec, index, container)
    complete = [{**_DEFAULTS, **container} for container in wanted.values()]
    result["spec"] = {**spec, "ephemeralContainers": complete}
    if not complete:
        del result["spec"]["ephemeralContainers"]
    return result


def _by_name(stored: Stored, given: list[Plain] | tuple[()]) -> dict[str, Plain]:
    containers: dict[str, Plain] = {}
    for index, container in enumerate(given):
        name = container.get("name") or ""
        if name in containers:
            why = f'Duplicate value: "{name}"'
            raise _refused(stored, f"{_FIELD}[{index}].name", "FieldValueDuplicate", why)
        containers[name] = container
    return containers


def _check(stored: Stored, spec: Plain, index: int, container: Plain) -> None:
    at = f"{_FIELD}[{index}]"
    for field in ("name", "image"):
        if not container.get(field):
            raise _refused(stored, f"{at}.{field}", "FieldValueRequired", "Required value")
    others = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = {other.get("name") for other in others}
    if container["name"] in names:
        why = f'Duplicate value: "{container["name"]}"'
        raise _refused(stored, f"{at}.name", "FieldValueDuplicate", why)
    target = container.get("targetContainerName")
    if target and target not in names:
        why = f'Not found: "{target}"'
        raise _refused(stored, f"{at}.targetContainerName", "FieldValueNotFound", why)
    for field in ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        if container.get(field):
            why = "Forbidden: cannot be set for an Ephemeral Container"
            raise _refused(stored, f"{at}.{field}", "FieldValueForbidden", why)


def _refused(stored: Stored, field: str, reason: str, why: str) -> Exception:
    return invalid(stored.resource, stored.name, field, reason, why)


def finalized(stored: Stored, data: Plain) -> Plain:
    """Return a namespace with the finalizers of its specification that `data` has."""
    result = stored.data
    finalizers = (data.get("spec") or {}).get("finalizers") or []
    result["spec"] = {**(result.get("spec") or {}), "finalizers": finalizers}
    if not finalizers:
        del result["spec"]["finalizers"]
    return result
