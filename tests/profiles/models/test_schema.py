"""The committed JSON Schemas, and that they agree with the models."""

from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import Draft7Validator

from policy_sched.profiles.models.defaults import policies_directory, schemas_directory
from policy_sched.profiles.models.schema import TEST_FILE, schemas


@pytest.mark.parametrize("name", sorted(schemas()))
def test_committed_schema_is_what_the_models_print(name: str) -> None:
    """schemas/ holds what `python -m policy_sched.profiles.models.schema` writes."""
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


def test_the_shipped_tests_fit_their_schema() -> None:
    """An editor finds nothing wrong with tests that pass, and does with misspelt ones."""
    validator = Draft7Validator(json.loads(schemas()[TEST_FILE]))
    found = 0
    for file in policies_directory().glob("*/tests.yaml"):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            found += 1
            assert [error.message for error in validator.iter_errors(document)] == []
    assert found > 20
    wrong = {"name": "x", "pending": ["a"], "expect": [{"pod": "a", "choosen": "n1"}]}
    assert len(list(validator.iter_errors(wrong))) == 1
