"""CustomResourceDefinitions for tests."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]
SHIRT: Plain = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["color"],
            "properties": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "size": {"type": "integer", "format": "int32", "default": 3, "maximum": 9},
                "replicas": {"type": "integer", "default": 1},
                "label": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "note": {"type": "string", "nullable": True},
                "amount": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "maxItems": 4,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "maxLength": 9},
                            "count": {"type": "integer", "default": 1},
                        },
                    },
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}
NAMES: Plain = {"plural": "shirts", "kind": "Shirt", "shortNames": ["sh"], "categories": ["all"]}


def version(name: str = "v1", **more: Any) -> Plain:
    """Return a version of a definition."""
    schema = more.pop("schema", SHIRT)
    common = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"name": name, **common, "subresources": {"status": {}}, **more}


def definition(*versions: Plain, **spec: Any) -> Plain:
    """Return a definition of shirts; ``spec``: fields of its specification."""
    group, names = spec.pop("group", "stable.example.com"), spec.pop("names", NAMES)
    given = {"group": group, "scope": "Namespaced", "names": names, **spec}
    given["versions"] = list(versions) or [version()]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": given,
    }


def shirt(name: str = "s", **spec: Any) -> Plain:
    """Return a shirt."""
    meta = {"name": name, "namespace": "default"}
    spec = {"color": "red", **spec}
    return {
        "apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": meta, "spec": spec,
    }  # fmt: skip
