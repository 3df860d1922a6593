"""Objects by their schema: pruned, complete, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from policy_sched.client.apimachinery import copied
from policy_sched.embedded.schema import structural
from policy_sched.embedded.schema.definition_checks import schema_of
from policy_sched.embedded.schema.problems import Problems
from tests.embedded.schema.crds import SHIRT
from tests.examples import scaled

Plain = dict[str, Any]
SPEC = SHIRT["properties"]["spec"]
REFUSED = yaml.load(
    Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


def wrong(schema: Plain, value: Any, old: Any = structural.MISSING) -> list[str]:
    """Return what is wrong with a value of a field called spec."""
    problems = Problems()
    structural.validate(problems, schema_of(schema), value, "spec", old)
    return [f"{at}: {words}" for at, _, words in problems.causes]


def test_unknown_fields_are_pruned_and_named() -> None:
    """A controller read fields back that a cluster would have dropped."""
    value = {
        "apiVersion": "v", "kind": "Shirt", "metadata": {"any": 1}, "x": 1,
        "spec": {"color": "red", "colour": 1, "free": {"a": {"b": 1}}, "limits": {"any": 1},
                 "parts": [{"name": "a", "size": 1}]},
    }  # fmt: skip
    dropped = list(structural.prune(schema_of(SHIRT), value, "", root=True))
    assert dropped == ["x", "spec.colour", "spec.parts[0].size"]
    assert value["metadata"] == {"any": 1}
    assert value["spec"]["free"] == {"a": {"b": 1}}  # type: ignore[index]


def test_embedded_objects_keep_their_own_fields() -> None:
    """A template in a custom object lost its metadata."""
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "other": 1}
    assert list(structural.prune(schema_of(inner), value, "spec.template")) == [
        "spec.template.other"
    ]
    assert set(value) == {"apiVersion", "kind", "metadata"}


def test_defaults_fill_in_what_is_not_there() -> None:
    """Defaults go into items, and where null stands that may not; a nullable null stays."""
    value = {"spec": {"color": "red", "size": None, "note": None, "parts": [{"name": "a"}]}}
    structural.complete(schema_of(SHIRT), value)
    assert value["spec"] == {
        "color": "red", "size": 3, "replicas": 1, "note": None,
        "parts": [{"name": "a", "count": 1}],
    }  # fmt: skip


@pytest.mark.parametrize("case", REFUSED["values"])
def test_what_is_wrong_is_said_as_by_kube_apiserver(case: Plain) -> None:
    """Tools that read the messages of a real cluster did not know these."""
    assert case["said"] in wrong(SPEC, case["value"])


@pytest.mark.parametrize("case", REFUSED["conditions"])
def test_each_condition_is_checked(case: Plain) -> None:
    """A condition that nothing checks lets in what a cluster refuses."""
    assert case["said"] in wrong(case["schema"], case["value"])
    assert not wrong({}, case["value"])


def test_what_was_there_before_is_not_refused() -> None:
    """A schema that became stricter made every update of an older object fail."""
    old = {"color": "green", "parts": [{"name": "a", "count": "x"}, {"name": "b"}]}
    assert wrong(SPEC, {**old, "size": 4}, old) == []
    moved = {**old, "parts": [{"name": "b"}, {"name": "a", "count": "x"}]}
    assert wrong(SPEC, moved, old) == []
    assert wrong(SPEC, {**old, "label": "A"}, old) == [
        "spec.label: Invalid value: \"A\": spec.label in body should match '^[a-z]+$'"
    ]


def test_a_check_has_an_end() -> None:
    """Many conditions on each of many items took minutes, and all requests waited."""
    schema = {
        "type": "array",
        "items": {"type": "string", "anyOf": [{"pattern": f"^(a|b)*{i}$"} for i in range(400)]},
    }
    (said,) = [text for text in wrong(schema, ["ab" * 20 + "399"] * 9000) if "steps" in text]
    assert said == "spec: Forbidden: checking it by its schema takes more than 200000 steps"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(("", "red", "5%", 2.5)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("name", "count", "color", "parts", "x")), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=scaled(150))
@given(st.dictionaries(st.sampled_from((*SPEC["properties"], "x")), JSON), JSON)
def test_any_object_is_pruned_and_completed_once(spec: Plain, status: Any) -> None:
    """What was completed needs no more, and whatever it holds can be checked."""
    schema = schema_of(SHIRT)
    data = {"apiVersion": "v", "kind": "Shirt", "metadata": {}, "spec": spec, "status": status}
    list(structural.prune(schema, data, "", root=True))
    structural.complete(schema, data)
    again = copied(data)
    assert list(structural.prune(schema, again, "", root=True)) == []
    structural.complete(schema, again)
    assert again == data
    problems = Problems()
    structural.validate(problems, schema, data, "")
    assert all(isinstance(words, str) for _, _, words in problems.causes)


def test_lists_and_maps_are_merged_as_the_schema_says() -> None:
    """Server-side apply took lists of custom objects for one value."""
    rules = structural.MergeRules(schema_of(SHIRT))
    assert rules.keys_of(("spec", "parts")) == ("name",)
    assert rules.keys_of(("spec", "tags")) == ("",)
    assert rules.keys_of(("spec", "free", "parts")) is None
    assert rules.keys_of(("metadata", "finalizers")) == ("",)
    assert not rules.atomic(("spec", "limits"))
