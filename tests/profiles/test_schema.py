"""The committed JSON Schemas, and that they agree with the models."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from policy_sched.profiles.resources import schemas_directory
from policy_sched.profiles.schema import schemas


@pytest.mark.parametrize("name", sorted(schemas()))
def test_committed_schema_is_what_the_models_print(name: str) -> None:
    """schemas/ holds what `python -m policy_sched.profiles.schema` writes."""
    assert (schemas_directory() / name).read_text(encoding="utf-8") == schemas()[name]


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schema_is_draft_07(name: str) -> None:
    """Editors and validators of draft-07 can read the schema."""
    schema = json.loads(schemas()[name])
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("name", sorted(schemas()))
def test_every_property_is_described(name: str) -> None:
    """Hovering over a key in an editor shows what it means."""
    schema = json.loads(schemas()[name])
    for title, definition in {name: schema, **schema["definitions"]}.items():
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"{title}.{key}"
