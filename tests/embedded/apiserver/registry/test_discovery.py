"""The API's own description: fields and types of the kinds, for ``kubectl explain``."""

from __future__ import annotations

from typing import Any

from policy_sched.embedded.apiserver.registry.discovery import openapi_v3, openapi_v3_index
from policy_sched.embedded.apiserver.registry.resources import BUILT_IN

PLACE = "#/components/schemas/"


def _schema(schemas: dict[str, Any], reference: dict[str, Any]) -> Any:
    (schema,) = reference["allOf"]
    return schemas[schema["$ref"].removeprefix(PLACE)]


def test_fields_have_their_types() -> None:
    """Scalars, lists, maps, other objects, and what Go embeds."""
    openapi = openapi_v3(BUILT_IN, "api/v1")
    assert openapi is not None
    schemas = openapi["components"]["schemas"]
    kinds = {"group": "", "kind": "Pod", "version": "v1"}
    pod = next(s for s in schemas.values() if kinds in s.get("x-kubernetes-group-version-kind", ()))
    assert pod["properties"]["kind"] == {"type": "string"}
    spec = _schema(schemas, pod["properties"]["spec"])["properties"]
    assert spec["nodeName"] == {"type": "string"}
    assert spec["nodeSelector"]["additionalProperties"] == {"type": "string"}
    assert spec["containers"]["type"] == "array"
    volume = _schema(schemas, spec["volumes"]["items"])["properties"]
    assert {"name", "emptyDir", "hostPath"} <= volume.keys()


def test_all_references_lead_somewhere() -> None:
    """In every group; and every kind is described."""
    for path in openapi_v3_index(BUILT_IN)["paths"]:
        openapi = openapi_v3(BUILT_IN, path)
        assert openapi is not None
        schemas = openapi["components"]["schemas"]
        kinds = [s for s in schemas.values() if "x-kubernetes-group-version-kind" in s]
        assert len(kinds) == len(openapi["paths"])
        for reference in _references(schemas):
            assert reference.removeprefix(PLACE) in schemas


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [reference for inner in value.values() for reference in _references(inner)]
    return (
        [reference for inner in value for reference in _references(inner)]
        if isinstance(value, list)
        else []
    )


def test_a_group_that_is_not_served_is_not_described() -> None:
    """It is not found."""
    assert openapi_v3(BUILT_IN, "apis/no.such/v1") is None
