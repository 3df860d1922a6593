"""Refusals of changes, in the API server's words."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, Resource

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
    """Return the refusal of an object that is there already."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(name, resource, resource.plural))


def conflict(resource: Resource, name: str, why: str, subresource: str = "") -> ApiError:
    """Return the refusal of a change to something that is not as the client believes."""
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
