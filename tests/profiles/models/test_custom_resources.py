"""The definitions of our kinds: an API server takes them, and they say what files may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from policy_sched.embedded.schema import structural
from policy_sched.embedded.schema.definition_checks import (
    check_definition,
    schema_of,
    unknown_fields,
)
from policy_sched.embedded.schema.problems import Problems
from policy_sched.profiles.models import CUSTOM_RESOURCES, CustomResource, definition_of, schemas
from policy_sched.profiles.models.defaults import policies_directory, schemas_directory
from policy_sched.profiles.models.schema import definitions

Plain = dict[str, Any]
LAST_APPLIED = 262_144
"""Bytes of all annotations of an object, in one of which kubectl apply keeps it."""

each = pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)


def schema(resource: CustomResource) -> Plain:
    """Return the schema of the kind's only version."""
    (version,) = definition_of(resource)["spec"]["versions"]
    printed: Plain = version["schema"]["openAPIV3Schema"]
    return printed


def policies() -> Iterator[Plain]:
    """Yield the shipped policies, but for those that stand in for default plugins."""
    for file in sorted(policies_directory().glob("*/policy.yaml")):
        yield from yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


@each
def test_the_committed_definition_is_what_the_models_print(resource: CustomResource) -> None:
    """schemas/ holds what `python -m policy_sched.profiles.models.schema` writes."""
    file = f"{resource.name}.json"
    assert (schemas_directory() / file).read_text(encoding="utf-8") == definitions()[file]


@each
def test_an_api_server_takes_the_definition(resource: CustomResource) -> None:
    """Its schema is structural, has no unknown word, and kubectl can keep it in an annotation."""
    data = definition_of(resource)
    data["status"] = {"storedVersions": ["v1alpha1"]}
    problems = Problems()
    check_definition(problems, data, None)
    assert problems.text == ""
    assert not list(unknown_fields(data))
    assert len(json.dumps(definition_of(resource))) < LAST_APPLIED / 2


@each
def test_every_field_is_explained(resource: CustomResource) -> None:
    """`kubectl explain` reads like the reference."""

    def undescribed(part: Plain, at: str) -> Iterator[str]:
        for name, inner in part.get("properties", {}).items():
            if name not in ("apiVersion", "kind", "metadata") or at:
                if not inner.get("description"):
                    yield f"{at}.{name}"
                yield from undescribed(inner, f"{at}.{name}")
        if isinstance(part.get("items"), dict):
            yield from undescribed(part["items"], f"{at}[]")

    assert list(undescribed(schema(resource), "")) == []


def test_the_shipped_policies_are_objects_as_they_are() -> None:
    """A file can be applied: nothing of it is pruned, and nothing is refused."""
    resource = next(entry for entry in CUSTOM_RESOURCES if entry.kind == "Policy")
    form, count = schema_of(schema(resource)), 0
    for policy in policies():
        count += 1
        given = json.loads(json.dumps(policy))
        assert list(structural.prune(form, given, "", root=True)) == []
        problems = Problems()
        structural.validate(problems, form, given, "")
        assert problems.text == "", policy["metadata"]["name"]
        assert given == policy
    assert count > 30


def test_sections_have_the_same_keys_as_in_a_file() -> None:
    """What an editor completes in a file is what kubectl explains."""
    resource = next(entry for entry in CUSTOM_RESOURCES if entry.kind == "Policy")
    file = json.loads(schemas()["policy.schema.json"])["definitions"]["PolicySpec"]["properties"]
    spec = schema(resource)["properties"]["spec"]["properties"]
    assert list(spec) == list(file)
    assert [part["description"] for part in spec.values()] == [
        part["description"] for part in file.values()
    ]


def test_what_may_be_a_rule_or_a_mapping_has_the_fields_of_the_mapping() -> None:
    """A rule may be a text, a number or a boolean, so it has no type."""
    resource = next(entry for entry in CUSTOM_RESOURCES if entry.kind == "Policy")
    reserve = schema(resource)["properties"]["spec"]["properties"]["reserve"]
    assert "type" not in reserve
    assert list(reserve["properties"]) == ["expression", "message", "messageExpression", "onError"]
