"""The API's own description: the fields of the kinds whose messages are known, without words.

kubectl reads it for ``explain``, and before it sends anything: whether a resource can be patched
with validation of its fields by the server. No field is refused for being unknown.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from policy_sched.embedded.apiserver.registry.discovery import VERSION
from policy_sched.embedded.apiserver.registry.resources import SERVED, VERSIONS, Served
from policy_sched.embedded.schema import MESSAGES, Field, message_of
from policy_sched.manifests import Plain

V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Clients ask for it with an @ before the v1, which is no media type that they could read."""
_TITLE: Final = "Kubernetes"
_INFO: Final = {"title": _TITLE, "version": VERSION["gitVersion"]}
_PLACE: Final = "#/components/schemas/"
_SCALARS: Final[dict[str, Plain]] = {
    "s": {"type": "string"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "b": {"type": "boolean"},
    "x": {"type": "string", "format": "byte"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Quantity": {"type": "string"},
    "IntOrString": {"type": "string", "format": "int-or-string"},
    "FieldsV1": {"type": "object"},
    "RawExtension": {"type": "object"},
    "Object": {"type": "object"},
    "ExtraValue": {"type": "array", "items": {"type": "string"}},
}
_META: Final = "ObjectMeta"


def v2() -> Plain:
    """Return the description in OpenAPI 2, without any definitions."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def v2_protobuf() -> bytes:
    """Return the same as a gnostic openapi.v2.Document: swagger = 1, info = 2 {title, version}."""
    info = _field(1, _TITLE.encode()) + _field(2, VERSION["gitVersion"].encode())
    return _field(1, b"2.0") + _field(2, info)


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 128  # one byte of length
    return bytes(((number << 3) | 2, len(value))) + value


def v3_index() -> Plain:
    """Return where each group's description is."""
    paths = [
        f"apis/{group}/{version}" if group else f"api/{version}"
        for group, versions in VERSIONS.items()
        for version in versions
    ]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


@cache
def v3(path: str) -> Plain | None:
    """Return a group's description (``apis/apps/v1``), None if there is no such group."""
    if path not in v3_index()["paths"]:
        return None
    paths: dict[str, Plain] = {}
    schemas: dict[str, Plain] = {}
    for one in SERVED:
        if path != (f"apis/{one.group_version}" if one.group else f"api/{one.version}"):
            continue
        place = "/namespaces/{namespace}" if one.resource.namespaced else ""
        kind = {"group": one.group, "kind": one.kind, "version": one.version}
        validated = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        paths[f"/{path}{place}/{one.name}/{{name}}"] = {
            "patch": {
                "parameters": [validated],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            }
        }
        _add_kind(one, kind, schemas)
    components = {"schemas": schemas}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": components}


def _add_kind(one: Served, kind: Plain, schemas: dict[str, Plain]) -> None:
    """Add the schema of a kind, and those that it refers to."""
    message = message_of(one.group_version, one.kind)
    name = message or f"{one.group_version}/{one.kind}"
    if message:
        _add(message, schemas)
        properties = schemas[_name(name)]["properties"]
    else:
        _add(_META, schemas)
        properties = {"metadata": _reference(_META)}
    head = {"apiVersion": _SCALARS["s"], "kind": _SCALARS["s"]}
    schemas[_name(name)] = {
        "type": "object",
        "properties": {**head, **properties},
        "x-kubernetes-group-version-kind": [kind],
    }


def _name(message: str) -> str:
    return f"io.k8s.{message.replace('/', '.')}"


def _reference(message: str) -> Plain:
    return {"allOf": [{"$ref": _PLACE + _name(message)}]}


def _add(message: str, schemas: dict[str, Plain]) -> None:
    """Add the schema of a message, and those that it refers to."""
    if _name(message) in schemas:
        return
    properties: dict[str, Plain] = {}
    schemas[_name(message)] = {"type": "object", "properties": properties}
    for field in MESSAGES[message].values():
        if field.type not in _SCALARS:
            _add(field.type, schemas)
        if field.name == "-":
            properties |= schemas[_name(field.type)]["properties"]
        else:
            properties[field.name] = _schema(field)


def _schema(field: Field) -> Plain:
    item = _SCALARS.get(field.type) or _reference(field.type)
    if field.mapped:
        return {"type": "object", "additionalProperties": item}
    return {"type": "array", "items": item} if field.repeated else item
