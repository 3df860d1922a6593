"""Arguments of in-tree plugins: upstream's defaults, ranges and words."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.profiles.load.configuration import config_from_value
from policy_sched.profiles.resolve.plan import effective_args

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
AT = "profiles[0].pluginConfig[0].args."


def load(name: str, args: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return effective arguments, and what is wrong with the given ones."""
    entry = {"name": name, "args": args}
    value = {**HEAD, "profiles": [{"schedulerName": "s", "pluginConfig": [entry]}]}
    loaded, problems = config_from_value(value)
    found = [problem.message.replace(AT, "") for problem in problems]
    return None if loaded is None else effective_args(name, loaded.args[0, name]), found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "NodeResourcesFit",
            {
                "ignoredResources": [],
                "ignoredResourceGroups": [],
                "scoringStrategy": {
                    "type": "LeastAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                },
            },
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]},
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
        ),
        ("NodeAffinity", {}),
        ("PodTopologySpread", {"defaultConstraints": [], "defaultingType": "System"}),
        ("VolumeBinding", {"bindTimeoutSeconds": 600}),
        (
            "DynamicResources",
            {"filterTimeout": 10_000_000_000, "bindingTimeout": 600_000_000_000},
        ),
    ],
)
def test_default_arguments(name: str, expected: dict[str, Any]) -> None:
    """A plugin without arguments has upstream's defaults."""
    assert effective_args(name, None) == expected
    assert load(name, {}) == (expected, [])
    assert load(name, {"apiVersion": HEAD["apiVersion"], "kind": f"{name}Args"}) == (expected, [])


def test_weights_that_are_not_given_are_one() -> None:
    """A resource without a weight, or with 0, weighs 1; no resources mean cpu and memory."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "x", "weight": 0}]}
    args, _ = load("NodeResourcesFit", {"scoringStrategy": strategy})
    assert args is not None
    assert args["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 1}, {"name": "x", "weight": 1}],
    }
    args, _ = load("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    assert args is not None
    assert [r["name"] for r in args["scoringStrategy"]["resources"]] == ["cpu", "memory"]


def test_added_affinity_stays_as_written() -> None:
    """addedAffinity reaches the plugin as the mapping that the file holds."""
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert load("NodeAffinity", {"addedAffinity": affinity}) == ({"addedAffinity": affinity}, [])


def _selector(**condition: Any) -> dict[str, Any]:
    """Return NodeAffinity arguments with one condition."""
    term = {"matchExpressions": [{"key": "k", **condition}]}
    required = {"nodeSelectorTerms": [term]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesAbsolute": -1},
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a/b"]},
            (
                'ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can\'t contain'
                " '/'"
            ),
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [
                            {"utilization": 50, "score": 1},
                            {"utilization": 50, "score": 2},
                        ]
                    },
                }
            },
            (
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50:"
                " values must be sorted in increasing order"
            ),
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            (
                "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a"
                " negative value"
            ),
        ),
        (
            "DynamicResources",
            {"bindingTimeout": "0.5s"},
            "bindingTimeout: Invalid value: must be at least 1 second",
        ),
        (
            "NodeAffinity",
            _selector(operator="In"),
            (
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
                ".matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators,"
                " values set can't be empty"
            ),
        ),
        (
            "NodeAffinity",
            _selector(operator="Gt", values=["x"]),
            (
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
                ".matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators,"
                " the value must be an integer"
            ),
        ),
        (
            "PodTopologySpread",
            {
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        ),
    ],
)
def test_bad_arguments(name: str, args: dict[str, Any], message: str) -> None:
    """A bad argument is refused in upstream's words."""
    effective, (found,) = load(name, args)
    assert effective is None
    assert found == message
