"""What a cluster's definition says otherwise than rules read."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.language.values import schema_changes, types

QUANTITY = {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}
OPEN = "x-kubernetes-preserve-unknown-fields"


def kind_of(text: str) -> types.InputType:
    """Return the type of an input whose objects have a spec of a type."""

    def named(kind: types.Type, name: str) -> types.Type:
        match kind:
            case types.RecordType(fields=fields) if fields:
                inner = tuple((key, named(part, f"{name}.{key}")) for key, part in fields)
                return types.ObjectType(name, inner)
            case types.ListType():
                return types.list_of(named(kind.element, name))
            case types.MapType():
                return types.map_of(kind.key, named(kind.value, name))
        return kind

    spec = named(types.parse_type(text), "inputs.q.spec")
    record = types.ObjectType("inputs.q", (("name", types.STRING), ("spec", spec)))
    return types.InputType("inputs.q", record)


def definition(spec: dict[str, Any], **version: Any) -> dict[str, Any]:
    """Return a definition whose version v1 has a spec."""
    whole = {"type": "object", "properties": {"spec": spec}}
    entry = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": whole}, **version}
    return {"spec": {"versions": [entry]}}


def record(**fields: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("read", "spec"),
    [
        ("{most: int}", record(most={"type": "integer"}, other={"type": "string"})),
        ("{part: double}", record(part={"type": "integer"})),
        ("{when: timestamp}", record(when={"type": "string", "format": "date-time"})),
        ("{min: quantity}", record(min=QUANTITY)),
        ("{min: quantity}", record(min={"type": "string"})),
        ("{max: resources}", record(max={"type": "object", "additionalProperties": QUANTITY})),
        (
            "{by: map(string, int)}",
            record(by={"type": "object", "additionalProperties": {"type": "integer"}}),
        ),
        (
            "{all: list({a: int})}",
            record(all={"type": "array", "items": record(a={"type": "integer"})}),
        ),
        ("{free: int}", {"type": "object", OPEN: True}),
        ("{free: int}", record(free={OPEN: True})),
        ("{free: {a: int}}", record(free={"type": "object", OPEN: True})),
    ],
)
def test_what_can_still_be_read_is_no_difference(read: str, spec: dict[str, Any]) -> None:
    """More fields, narrower types, and fields whose type the cluster leaves open."""
    assert schema_changes(kind_of(read), "example.com/v1", definition(spec)) == ()


@pytest.mark.parametrize(
    ("read", "spec", "change"),
    [
        ("{most: int}", record(), "inputs.q.spec.most is gone"),
        (
            "{most: int}",
            record(most={"type": "string"}),
            "inputs.q.spec.most is string, and rules read int",
        ),
        (
            "{most: int}",
            record(most={"type": "number"}),
            "inputs.q.spec.most is number, and rules read int",
        ),
        (
            "{part: string}",
            record(part=QUANTITY),
            "inputs.q.spec.part is int-or-string, and rules read string",
        ),
        ("{a: {b: int}}", record(a=record(c={"type": "integer"})), "inputs.q.spec.a.b is gone"),
        (
            "{a: {b: int}}",
            record(a={"type": "array", "items": {}}),
            "inputs.q.spec.a is array, and rules read object",
        ),
        (
            "{all: list({a: int})}",
            record(all={"type": "array", "items": record(b={"type": "integer"})}),
            "inputs.q.spec.all.a is gone",
        ),
        (
            "{max: resources}",
            record(max={"type": "object", "additionalProperties": {"type": "boolean"}}),
            "inputs.q.spec.max is map of boolean, and rules read resources",
        ),
        (
            "{by: map(string, int)}",
            record(by=record(a={"type": "integer"})),
            "inputs.q.spec.by is object, and rules read map(string, int)",
        ),
    ],
)
def test_a_difference_names_the_field(read: str, spec: dict[str, Any], change: str) -> None:
    """A field that went, or whose values rules could not read; with its path in rules."""
    assert schema_changes(kind_of(read), "example.com/v1", definition(spec)) == (change,)


def test_a_version_that_is_served_no_more() -> None:
    """Those that are served are named, as the way out."""
    kind, spec = kind_of("{most: int}"), record(most={"type": "integer"})
    away = definition(spec, served=False)
    away["spec"]["versions"] += [{"name": "v2", "served": True}, {"name": "v3"}]
    assert schema_changes(kind, "example.com/v1", away) == (
        "version v1 is not served any more; it serves v2, v3",
    )
    nothing = ("version v1 is not served any more",)
    assert schema_changes(kind, "example.com/v1", {"spec": {}}) == nothing
    assert schema_changes(kind, "example.com/v1", {"spec": []}) == nothing


def test_many_differences_are_cut() -> None:
    """An event has a bound, and a definition may have thousands of fields."""
    read = "{" + ", ".join(f"f{number}: int" for number in range(50)) + "}"
    changes = schema_changes(kind_of(read), "example.com/v1", definition(record()))
    assert len(changes) == 11
    assert changes[-1] == "and more"
