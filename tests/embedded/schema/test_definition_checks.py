"""What is wrong with a definition, one rule of kube-apiserver after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.schema.definition_checks import check_schema, schema_of
from policy_sched.embedded.schema.definitions import CustomKinds
from policy_sched.embedded.schema.problems import Problems
from tests.embedded.schema.crds import NAMES, SHIRT, definition, version

Plain = dict[str, Any]
AT = "spec.validation.openAPIV3Schema"
REFUSED = yaml.load(
    Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
STRING: Plain = {"type": "string"}


def refused(data: Plain, old: Plain | None = None) -> str:
    """Return why a definition is refused, "" if it is not."""
    try:
        CustomKinds().admit(data, old, 0)
    except ApiError as error:
        return error.message
    return ""


def wrong(schema: Plain) -> list[str]:
    """Return what is wrong with a schema, each beginning with its place below the root."""
    problems = Problems()
    check_schema(problems, schema_of(schema), AT)
    return [f"{at}: {words}".removeprefix(AT) for at, _, words in problems.causes]


def root(**properties: Plain) -> Plain:
    """Return a schema with some fields."""
    return {"type": "object", "properties": properties}


def said(data: Plain) -> list[tuple[str, ...]]:
    """Return the conditions of a definition."""
    fields = ("type", "status", "reason", "message")
    return [
        tuple(condition[field] for field in fields) for condition in data["status"]["conditions"]
    ]


def test_a_definition_is_completed_and_accepted() -> None:
    """Clients wait for the conditions that say so."""
    data = definition()
    assert refused(data) == ""
    assert data["spec"]["names"]["listKind"] == "ShirtList"
    assert data["spec"]["conversion"] == {"strategy": "None"}
    status = data["status"]
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["singular"] == "shirt"
    said = [
        (condition["type"], condition["status"], condition["reason"], condition["message"])
        for condition in status["conditions"]
    ]
    assert said == [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
    ]


@pytest.mark.parametrize("case", REFUSED["definitions"])
def test_a_wrong_definition_is_refused(case: Plain) -> None:
    """A definition that a cluster refuses was stored."""
    data = definition(version(**case.get("version", {})), **case.get("spec", {}))
    message = refused(data)
    assert case["said"] in message
    assert f'CustomResourceDefinition.apiextensions.k8s.io "{data["metadata"]["name"]}"' in message


def test_all_that_is_wrong_is_said_at_once() -> None:
    """One mistake after the other came to light."""
    data = definition(version(), version(), version("v2"))
    message = refused({**data, "metadata": {"name": "shirt.x"}})
    for said in (
        'metadata.name: Invalid value: "shirt.x": must be spec.names.plural+"."+spec.group',
        "must contain unique version names",
        "must have exactly one version marked as storage version",
    ):
        assert said in message


@pytest.mark.parametrize("case", REFUSED["schemas"])
def test_a_schema_must_be_structural(case: Plain) -> None:
    """Each rule, in kube-apiserver's words."""
    assert case["said"] in wrong(case["schema"])


def test_two_forms_of_int_or_string_may_name_types() -> None:
    """kubebuilder writes all quantities so, and they were refused."""
    either = [{"type": "integer"}, {"type": "string"}]
    form = {"x-kubernetes-int-or-string": True}
    assert wrong(root(a={**form, "anyOf": either}, b={**form, "allOf": [{"anyOf": either}]})) == []
    assert wrong(SHIRT) == []


def test_what_identifies_the_resource_stays() -> None:
    """A definition that changed its scope left objects behind that had no place."""
    old = definition()
    assert refused(old) == ""
    changed = {**definition(scope="Cluster"), "status": old["status"]}
    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in refused(changed, old)
    kind = {**definition(names={**NAMES, "kind": "Blouse"}), "status": old["status"]}
    assert 'spec.names.kind: Invalid value: "Blouse": field is immutable' in refused(kind, old)
    moved = {**definition(version("v2")), "status": {"storedVersions": ["v1"]}}
    assert (
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was'
        " previously a storage version"
    ) in refused(moved, old)


def test_names_of_another_definition_are_not_accepted() -> None:
    """Two kinds of one short name, of which clients took either."""
    kinds, first = CustomKinds(), definition()
    kinds.admit(first, None, 0)
    kinds.note("shirts.stable.example.com", first, 1)
    second = definition(names={"plural": "shorts", "kind": "Shorts", "shortNames": ["sh"]})
    kinds.admit(second, None, 0)
    said = [
        (condition["type"], condition["status"], condition["reason"], condition["message"])
        for condition in second["status"]["conditions"]
    ]
    assert said == [
        ("NamesAccepted", "False", "ShortNamesConflict", '"sh" is already in use'),
        ("Established", "False", "NotAccepted", "not all names are accepted"),
    ]  # fmt: skip
    assert "shortNames" not in second["status"]["acceptedNames"]
    kinds.note("shorts.stable.example.com", second, 2)
    assert [kind.name for kind in kinds] == ["shirts.stable.example.com"]


def test_a_schema_of_the_wrong_types_is_refused() -> None:
    """A schema whose maxLength was a text ended in an internal error."""
    bad = definition(version(schema=root(a={**STRING, "maxLength": "x"})))
    assert "cannot be handled as a CustomResourceDefinition: json: JSONSchemaProps:" in refused(bad)
