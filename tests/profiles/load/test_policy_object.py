"""Policies as objects: places in the YAML that kubectl prints, and what an object cannot have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.errors import Severity
from policy_sched.profiles.load import (
    PolicyObject,
    load_policies,
    paths_of,
    read_object,
    read_objects,
)
from policy_sched.profiles.load.policy_object import MOST_OBJECTS, yaml_text
from policy_sched.profiles.models.defaults import policies_directory

Plain = dict[str, Any]
META: Plain = {
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"a":1}\n'},
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "generation": 3,
    "resourceVersion": "7",
    "uid": "5b1c",
}


def policy_object(name: str = "mine", **spec: Any) -> PolicyObject:
    """Return an object as an API server has it."""
    head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy"}
    data = {**head, "metadata": {"name": name, **META}, "spec": spec}
    return PolicyObject(name, json.dumps(data).encode())


def test_the_shipped_policies_read_the_same_as_objects() -> None:
    """The same document as the file: nothing but places differs."""
    count = 0
    for file in sorted(policies_directory().glob("*/policy.yaml")):
        data = list(yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader))
        if len(data) > 1 or data[0]["metadata"]["name"] == "DefaultPreemption":
            continue
        ((policy,), _) = load_policies([str(file)])
        raw = json.dumps(data[0]).encode()
        read = read_object(PolicyObject(policy.name, raw))
        if any(given.schema_file for given in policy.model.spec.inputs):
            assert read.policy is None
            assert "an object has no file beside it" in read.problems[0].message
            continue
        count += 1
        assert not read.problems
        assert read.policy is not None
        assert read.policy.model == policy.model
    assert count > 20


def test_places_are_those_of_the_yaml_that_kubectl_prints() -> None:
    """Line and column are found again in ``kubectl get policy mine -o yaml``."""
    rule = "node.name != 'a' &&\nnode.nmae != 'b'"
    given = policy_object(filter=[{"expression": rule, "onErr": "Reject"}])
    lines = yaml_text(given).split("\n")
    assert lines[3:5] == [
        "  annotations:",
        "    kubectl.kubernetes.io/last-applied-configuration: |",
    ]
    read = read_object(given)
    (problem,) = read.problems
    assert problem.file == "policy.policysched.dev/mine"
    assert lines[problem.line - 1][problem.column - 1 :].startswith("onErr")
    assert list(paths_of([given], [problem]).values()) == ["spec.filter[0].onErr"]


def test_a_file_comes_first(tmp_path: Path) -> None:
    """An object of a file's name takes no part, and says so; the file is loaded."""
    given = policy_object(filter=[{"expression": "true"}])
    policies, (problem,) = read_objects([given], {"mine": "policies/mine.yaml"})
    assert not policies
    assert (problem.severity, problem.code) == (Severity.WARNING, "PS708")
    assert problem.hint == "the other one is in policies/mine.yaml, and files come first"


def test_the_number_of_objects_and_their_size_are_bounded() -> None:
    """More are refused as one problem, before anything of them is read."""
    one = policy_object(filter=[{"expression": "true"}])
    policies, (problem,) = read_objects([one] * (MOST_OBJECTS + 1), {})
    assert not policies
    assert problem.message.startswith(f"there are {MOST_OBJECTS + 1} policies as objects")
    large = policy_object(filter=[{"expression": "true", "message": "x" * (1 << 20)}])
    (problem,) = read_object(large).problems
    assert problem.message.startswith("the object has 10")
    _, (problem,) = read_objects([large] * 17, {})
    assert problem.code == "PS501"


@pytest.mark.parametrize("spec", [None, [], "a", {"filter": 5}, {"filter": [None]}, {"a": {}}])
def test_what_has_another_shape_is_told(spec: Any) -> None:
    """Without the definition's schema anything may come."""
    head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "m"}}
    read = read_object(PolicyObject("m", json.dumps({**head, "spec": spec}).encode()))
    assert read.problems
