"""The committed JSON Schemas, and that they agree with the models."""

from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import Draft7Validator

from policy_sched.profiles.models.defaults import policies_directory, schemas_directory
from policy_sched.profiles.models.schema import TEST_FILE, schemas

Printed = dict[str, str]
NAMES = sorted(path.name for path in schemas_directory().glob("*.schema.json"))


@pytest.fixture(scope="module")
def printed() -> Printed:
    """The schemas by their file's name."""
    return schemas()


def test_every_schema_is_committed(printed: Printed) -> None:
    """schemas/ has a file for each schema, and no other one."""
    assert sorted(printed) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_committed_schema_is_what_the_models_print(printed: Printed, name: str) -> None:
    """schemas/ holds what `python -m policy_sched.profiles.models.schema` writes."""
    assert (schemas_directory() / name).read_text(encoding="utf-8") == printed[name]


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_draft_07(printed: Printed, name: str) -> None:
    """Editors and validators of draft-07 can read the schema."""
    schema = json.loads(printed[name])
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("name", NAMES)
def test_every_property_is_described(printed: Printed, name: str) -> None:
    """Hovering over a key in an editor shows what it means."""
    schema = json.loads(printed[name])
    for title, definition in {name: schema, **schema["definitions"]}.items():
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"{title}.{key}"


def test_the_shipped_tests_fit_their_schema(printed: Printed) -> None:
    """An editor finds nothing wrong with tests that pass, and does with misspelt ones."""
    validator = Draft7Validator(json.loads(printed[TEST_FILE]))
    found = 0
    for file in policies_directory().glob("*/tests.yaml"):
        for document in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader):
            found += 1
            assert [error.message for error in validator.iter_errors(document)] == []
    assert found > 20
    wrong = {"name": "x", "pending": ["a"], "expect": [{"pod": "a", "choosen": "n1"}]}
    assert len(list(validator.iter_errors(wrong))) == 1


def test_objects_of_inputs_in_short_have_any_field(printed: Printed) -> None:
    """An editor took a short form without `spec` for a node without a name."""
    validator = Draft7Validator(json.loads(printed[TEST_FILE]))
    short: list[dict[str, object]] = [
        {"numa": "n1", "zones": [{"name": "node-0"}]},
        {"quota": "a", "namespace": "team-a", "status": {"used": {"cpu": 1}}},
        {"namespace": "team-a", "labels": {"a": "b"}},
        {"wish": "a"},
    ]
    for entry in short:
        test = {"name": "x", "objects": [entry], "pending": ["a"], "expect": [{"pod": "a"}]}
        assert [error.message for error in validator.iter_errors(test)] == []
    wrong = {"name": "x", "objects": [{"node": "n", "cpus": 1}], "pending": ["a"]}
    assert list(validator.iter_errors(wrong))
