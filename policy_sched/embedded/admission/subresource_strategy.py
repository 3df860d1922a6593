"""Changes by subresources other than the status: debugging containers, finalizers of namespaces."""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import Stored
from policy_sched.embedded.admission.errors import invalid
from policy_sched.manifests import Plain

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
    for place, one in enumerate(wanted.values()):
        _check(stored, spec, place, one)
    complete = [{**_DEFAULTS, **one} for one in wanted.values()]
    result["spec"] = {**spec, "ephemeralContainers": complete}
    if not complete:
        del result["spec"]["ephemeralContainers"]
    return result


def _by_name(stored: Stored, given: list[Plain] | tuple[()]) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for place, one in enumerate(given):
        name = one.get("name") or ""
        if name in found:
            why = f'Duplicate value: "{name}"'
            raise _refused(stored, f"{_FIELD}[{place}].name", "FieldValueDuplicate", why)
        found[name] = one
    return found


def _check(stored: Stored, spec: Plain, place: int, one: Plain) -> None:
    at = f"{_FIELD}[{place}]"
    for field in ("name", "image"):
        if not one.get(field):
            raise _refused(stored, f"{at}.{field}", "FieldValueRequired", "Required value")
    others = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = {other.get("name") for other in others}
    if one["name"] in names:
        why = f'Duplicate value: "{one["name"]}"'
        raise _refused(stored, f"{at}.name", "FieldValueDuplicate", why)
    target = one.get("targetContainerName")
    if target and target not in names:
        why = f'Not found: "{target}"'
        raise _refused(stored, f"{at}.targetContainerName", "FieldValueNotFound", why)
    for field in ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        if one.get(field):
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
