"""Discovery of groups, versions and resources, in its classic and aggregated form."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Any, Final

from policy_sched.client.apimachinery import EVENT
from policy_sched.embedded.apiserver.registry.resources import Catalog, ServedResource, Subresource
from policy_sched.manifests import Plain
from policy_sched.model import messages

AGGREGATED = "apidiscovery.k8s.io/v2"
VERSION: Plain = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+policy-sched",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The API of this version of Kubernetes is the one that is reported."""


def api_versions(catalog: Catalog, address: str) -> Plain:
    """Return the document at /api; ``address``: host and port that the client reached."""
    reached = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
    return {
        "kind": "APIVersions",
        "versions": list(catalog.versions[""]),
        "serverAddressByClientCIDRs": [reached],
    }


def group_list(catalog: Catalog) -> Plain:
    """Return the document at /apis."""
    groups = [_group(catalog, name) for name in catalog.versions if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(catalog: Catalog, name: str) -> Plain | None:
    """Return the document at /apis/GROUP."""
    if not name or name not in catalog.versions:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(catalog, name)}


def _group(catalog: Catalog, name: str) -> Plain:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in catalog.versions[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(catalog: Catalog, name: str, version: str) -> Plain | None:
    """Return the document at /api/v1, or /apis/GROUP/VERSION."""
    if version not in catalog.versions.get(name, ()):
        return None
    resources: list[Plain] = []
    for served in catalog.of(name, version):
        resources.append(_classic(served))
        resources += [_classic_part(served, part) for part in served.subresources]
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if name else {})
    head["groupVersion"] = f"{name}/{version}" if name else version
    return {**head, "resources": resources}


def _classic(served: ServedResource) -> Plain:
    return {
        "name": served.name,
        "singularName": served.singular,
        "namespaced": served.resource.namespaced,
        "kind": served.kind,
        "verbs": list(served.verbs),
        **_lists("shortNames", served.short_names),
        **_lists("categories", served.categories),
        **({} if served.review or served.computed else {"storageVersionHash": _hash(served)}),
    }


def _hash(served: ServedResource) -> str:
    """Return the hash of the stored version (StorageVersionHash of the API server).

    An API server stores events in their older form.
    """
    stored = "v1" if served.resource.key == EVENT else served.resource.api_version
    group, _, version = stored.rpartition("/")
    text = f"{group}/{version}/{served.kind}".encode()
    return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()


def _classic_part(served: ServedResource, part: Subresource) -> Plain:
    of = {"group": part.of[0], "version": part.of[1]} if part.of else {}
    return {
        "name": f"{served.name}/{part.name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
        **of,
        "kind": part.kind,
        "verbs": list(part.verbs),
    }


def aggregated(catalog: Catalog, *, core: bool) -> Plain:
    """Return all groups with their resources in one document: at /api (core), and at /apis."""
    names = [name for name in catalog.versions if (name == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": AGGREGATED,
        "metadata": {},
        "items": [_aggregated_group(catalog, name) for name in names],
    }


def _aggregated_group(catalog: Catalog, name: str) -> Plain:
    versions = [
        {
            "version": version,
            "resources": [_aggregated(served) for served in catalog.of(name, version)],
            "freshness": "Current",
        }
        for version in catalog.versions[name]
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated(served: ServedResource) -> Plain:
    return {
        "resource": served.name,
        "responseKind": {"group": "", "version": "", "kind": served.kind},
        "scope": "Namespaced" if served.resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
        **_lists("shortNames", served.short_names),
        **_lists("categories", served.categories),
        **_lists("subresources", [_aggregated_part(part) for part in served.subresources]),
    }


def _aggregated_part(part: Subresource) -> Plain:
    group, version = part.of or ("", "")
    return {
        "subresource": part.name,
        "responseKind": {"group": group, "version": version, "kind": part.kind},
        "verbs": list(part.verbs),
    }


def _lists(field: str, values: Any) -> Plain:
    return {field: list(values)} if values else {}


OPENAPI_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Clients ask for it with an @ before the v1, which is no media type that they could read."""
_TITLE: Final = "Kubernetes"
_INFO: Final = {"title": _TITLE, "version": VERSION["gitVersion"]}
_SCHEMAS: Final = "#/components/schemas/"
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


def openapi_v2() -> Plain:
    """Return the description in OpenAPI 2, without any definitions."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def openapi_v2_protobuf() -> bytes:
    """Return the same as a gnostic openapi.v2.Document: swagger = 1, info = 2 {title, version}."""
    info = _field(1, _TITLE.encode()) + _field(2, VERSION["gitVersion"].encode())
    return _field(1, b"2.0") + _field(2, info)


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 128  # one byte of length
    return bytes(((number << 3) | 2, len(value))) + value


def openapi_v3_index(catalog: Catalog) -> Plain:
    """Return where each group's description is."""
    paths = [
        f"apis/{group}/{version}" if group else f"api/{version}"
        for group, versions in catalog.versions.items()
        for version in versions
    ]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


@lru_cache(maxsize=64)
def openapi_v3(catalog: Catalog, path: str) -> Plain | None:
    """Return a group's description (``apis/apps/v1``), None if there is no such group."""
    if path not in openapi_v3_index(catalog)["paths"]:
        return None
    paths: dict[str, Plain] = {}
    schemas: dict[str, Plain] = {}
    for served in catalog.served:
        if path != (f"apis/{served.group_version}" if served.group else f"api/{served.version}"):
            continue
        scope = "/namespaces/{namespace}" if served.resource.namespaced else ""
        kind = {"group": served.group, "kind": served.kind, "version": served.version}
        validated = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        paths[f"/{path}{scope}/{served.name}/{{name}}"] = {
            "patch": {
                "parameters": [validated],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            }
        }
        _add_kind(served, kind, schemas)
    components = {"schemas": schemas}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": components}


def _add_kind(served: ServedResource, kind: Plain, schemas: dict[str, Plain]) -> None:
    """Add the schema of a kind, and those that it refers to."""
    if served.custom is not None:
        given = served.custom.given_schema
        _add(_META, schemas)
        head = {"apiVersion": _SCALARS["s"], "kind": _SCALARS["s"], "metadata": _reference(_META)}
        group = ".".join(reversed(served.group.split(".")))
        schemas[f"{group}.{served.version}.{served.kind}"] = {
            **given,
            "properties": {**(given.get("properties") or {}), **head},
            "x-kubernetes-group-version-kind": [kind],
        }
        return
    message = messages.message_of(served.group_version, served.kind)
    name = message or f"{served.group_version}/{served.kind}"
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
    return {"allOf": [{"$ref": _SCHEMAS + _name(message)}]}


def _add(message: str, schemas: dict[str, Plain]) -> None:
    """Add the schema of a message, and those that it refers to."""
    if _name(message) in schemas:
        return
    properties: dict[str, Plain] = {}
    schemas[_name(message)] = {"type": "object", "properties": properties}
    for field in messages.fields_by_number(message).values():
        if field.type not in _SCALARS:
            _add(field.type, schemas)
        if field.name == "-":
            properties |= schemas[_name(field.type)]["properties"]
        else:
            properties[field.name] = _schema(field)


def _schema(field: messages.MessageField) -> Plain:
    item = _SCALARS.get(field.type) or _reference(field.type)
    if field.mapped:
        return {"type": "object", "additionalProperties": item}
    return {"type": "array", "items": item} if field.repeated else item
