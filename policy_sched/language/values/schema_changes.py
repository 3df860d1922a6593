"""How the definition of a kind in a cluster differs from what rules read of its objects.

Only fields that rules read count, and only where values of the cluster's type would not be read:
a field that went, another type, a version that is served no more. What the cluster's schema leaves
open may have any type, so it is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from policy_sched.language.values import types
from policy_sched.language.values.objects import META

MOST: Final = 10
"""Differences that are told; a definition may have thousands of fields."""
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_ACCEPTED: Final[Mapping[types.Type, frozenset[str]]] = {
    types.BOOL: frozenset({"boolean"}),
    types.INT: frozenset({"integer"}),
    types.DOUBLE: frozenset({"integer", "number"}),
    types.STRING: frozenset({"string"}),
    types.TIMESTAMP: frozenset({"string"}),
}
_OF_QUANTITY: Final = frozenset({"int-or-string", "string", "integer", "number"})


def schema_changes(
    kind: types.InputType, api_version: str, definition: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return what rules could not read any more by a CustomResourceDefinition, in sentences.

    ``kind`` has the fields that rules read, alone.
    """
    wanted = api_version.rpartition("/")[2]
    versions = _mapping(definition.get("spec")).get("versions")
    served = {
        str(entry.get("name")): entry
        for entry in map(_mapping, versions if isinstance(versions, list) else ())
        if entry.get("served") is not False
    }
    if wanted not in served:
        there = f"; it serves {', '.join(served)}" if served else ""
        return (f"version {wanted} is not served any more{there}",)
    schema = _mapping(served[wanted].get("schema")).get("openAPIV3Schema")
    changes = list(islice(_fields(kind.record, _mapping(schema), META), MOST + 1))
    return (*changes[:MOST], *(["and more"] if len(changes) > MOST else ()))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _form(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema states, "" where it leaves it open."""
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    stated = schema.get("type")
    if isinstance(stated, str) and not (stated == "object" and schema.get(_OPEN)):
        return stated
    return "object" if "properties" in schema and not schema.get(_OPEN) else ""


def _fields(
    read: types.ObjectType, schema: Mapping[str, Any], beside: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the differences of a record; ``beside``: fields that no schema states."""
    properties = _mapping(schema.get("properties"))
    for name, inner in read.fields:
        path = f"{read.name}.{name}"
        if name in properties:
            yield from _part(inner, _mapping(properties[name]), path)
        elif name not in beside and not schema.get(_OPEN):
            yield f"{path} is gone"


def _part(read: types.Type, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    form = _form(schema)
    if not form:
        if isinstance(read, types.ObjectType) and "properties" in schema:
            yield from _fields(read, schema)  # an open object may still state types
        return
    match read:
        case types.ObjectType() if form == "object" and "properties" in schema:
            yield from _fields(read, schema)
        case types.ListType() if form == "array":
            yield from _part(read.element, _mapping(schema.get("items")), path)
        case types.MapType() if form == "object" and "properties" not in schema:
            yield from _part(read.value, _mapping(schema.get("additionalProperties")), path)
        case types.QuantityType() if form in _OF_QUANTITY:
            return
        case types.Type() if read == types.RESOURCES and "properties" not in schema:
            amount = _form(_mapping(schema.get("additionalProperties")))
            if form != "object" or (amount and amount not in _OF_QUANTITY):
                yield _another(path, schema, read)
        case _ if form not in _ACCEPTED.get(read, frozenset()):
            yield _another(path, schema, read)


def _another(path: str, schema: Mapping[str, Any], read: types.Type) -> str:
    """Return that a part has another type."""
    form = _form(schema)
    values = _mapping(schema.get("additionalProperties"))
    if form == "object":
        form = f"map of {_form(values) or 'anything'}" if values else "object"
    wanted = "object" if isinstance(read, types.ObjectType) else read
    return f"{path} is {form}, and rules read {wanted}"
