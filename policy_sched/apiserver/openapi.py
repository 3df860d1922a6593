"""As much of the API's own description as kubectl needs before it sends anything.

It looks up whether a resource can be patched with validation of its fields by the server; what
the fields are is not described, and no field is refused for being unknown.
"""

from __future__ import annotations

from typing import Final

from policy_sched.apiserver.discovery import VERSION
from policy_sched.apiserver.served import SERVED, VERSIONS
from policy_sched.model.expansion import Plain

V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Clients ask for it with an @ before the v1, which is no media type that they could read."""
_TITLE: Final = "Kubernetes"
_INFO: Final = {"title": _TITLE, "version": VERSION["gitVersion"]}


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


def v3(path: str) -> Plain | None:
    """Return a group's description (``apis/apps/v1``): that its resources can be patched."""
    if path not in v3_index()["paths"]:
        return None
    paths: dict[str, Plain] = {}
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
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": {}}}
