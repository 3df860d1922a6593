"""Whatever a file holds, loading it gives diagnostics and never an exception."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from hypothesis import given, settings, strategies as st

from policy_sched.errors import Severity
from policy_sched.profiles.load.configuration import config_from_value, load_config_document
from policy_sched.profiles.load.document import (
    MAX_DOCUMENTS,
    DocumentPosition,
    parse,
    without_nulls,
)
from policy_sched.profiles.load.policies import load_policy_document
from policy_sched.profiles.load.policy_source import policy_source
from policy_sched.profiles.resolve.plan import resolve
from policy_sched.source import SourceFile
from tests.examples import scaled

CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 8,
    "leaderElection": {"leaseDuration": "15s"},
    "extenders": [{"urlPrefix": "http://x", "managedResources": [{"name": "a.b/c"}]}],
    "profiles": [
        {
            "schedulerName": "a",
            "percentageOfNodesToScore": 10,
            "plugins": {
                "score": {"enabled": [{"name": "ImageLocality", "weight": 2}]},
                "multiPoint": {"disabled": [{"name": "NodePorts"}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 1}],
                            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 1}]},
                        }
                    },
                },
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
                                ]
                            }
                        }
                    },
                },
            ],
        }
    ],
}
POLICY: dict[str, Any] = {
    "apiVersion": "policysched.dev/v1alpha1",
    "kind": "Policy",
    "metadata": {"name": "P"},
    "spec": {
        "params": {"a": 1, "b": {"c": [1.5]}},
        "functions": [{"name": "f", "params": {"x": "int"}, "expression": "x"}],
        "variables": [{"name": "v", "expression": "1"}],
        "matchConditions": ["true"],
        "preEnqueue": [{"expression": "true", "message": "m"}],
        "queueSort": [{"expression": "pod.priority", "order": "Descending"}],
        "preFilter": {"nodeNames": "pod.requiredNodeNames()", "message": "m"},
        "filter": [{"expression": "true", "reasons": "[]", "resolvable": False}],
        "score": {"expression": "1", "normalize": {"expression": "score"}, "onError": "Zero"},
    },
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.sampled_from(["", "*", "score", "ImageLocality", "10s", "x" * 300, "ü\n// y"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "enabled", "args", "expression", "z"]), inner)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below ``value``."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += places(item, (*path, i))
    return found


def put(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the document with another value at ``path``."""
    changed: Any = copy.deepcopy(document)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert isinstance(changed, dict)
    return changed


@settings(max_examples=scaled(150), deadline=None)
@given(st.sampled_from(places(CONFIGURATION)), VALUES)
def test_any_value_anywhere_in_a_configuration(path: tuple[Any, ...], value: Any) -> None:
    """A configuration loads, or its problems are reported; with the marks of a file, too."""
    changed = put(CONFIGURATION, path, value)
    loaded, problems = config_from_value(changed)
    assert (loaded is None) == any(p.severity is Severity.ERROR for p in problems)
    if loaded is not None:
        resolve(loaded, ())
    documents, _ = parse(SourceFile("x.yaml", yaml.safe_dump(changed, allow_unicode=True)))
    for marked in documents:
        mended, found = load_config_document(changed, DocumentPosition("x.yaml", marked))
        assert len(found) == len(problems)
        if mended is not None:
            resolve(mended, ())


@settings(max_examples=scaled(150), deadline=None)
@given(st.sampled_from(places(POLICY)), VALUES)
def test_any_value_anywhere_in_a_policy(path: tuple[Any, ...], value: Any) -> None:
    """A policy loads, or its problems are reported, each inside the file."""
    text = yaml.safe_dump(put(POLICY, path, value), allow_unicode=True)
    documents, _ = parse(SourceFile("x.yaml", text))
    for marked in documents:
        loaded, problems = load_policy_document(marked)
        lines = text.split("\n")
        for problem in problems:
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        if loaded is not None:
            for rule in policy_source(loaded).filter:
                line, column, _ = rule.expression.position(0)
                assert 1 <= line <= len(lines)
                assert column >= 1
        else:
            assert problems


def test_nulls_are_dropped_where_kubernetes_drops_them() -> None:
    """Null keys go at any depth, but not below those that are kept, and not from lists."""
    value = {"a": None, "b": {"c": None, "d": [None, {"e": None}]}, "params": {"f": None}}
    assert without_nulls(value, keep=("params",)) == {
        "b": {"d": [None, {}]},
        "params": {"f": None},
    }


def test_documents_of_a_file_are_bounded() -> None:
    """5,000 policies in one file of 1 MiB took 12 s to check; 500 are read."""
    text = "---\na: 1\n" * (MAX_DOCUMENTS + 1)
    documents, (problem,) = parse(SourceFile("a.yaml", text))
    assert len(documents) == MAX_DOCUMENTS
    assert problem.message == "the file holds 501 documents; the limit is 500"
    assert problem.line == 2 * MAX_DOCUMENTS + 2
