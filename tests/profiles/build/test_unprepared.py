"""In-tree plugins whose PreFilter or PreScore is disabled fail as kube-scheduler's do."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from policy_sched.framework.status import Code
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.policytest.runner import run_file
from policy_sched.scheduler import Attempt, Reject, decide
from policy_sched.scheduler.setup import build
from policy_sched.testing import make_node, make_pod

FILTER = 'running "{}" filter plugin: {}'
SCORE = 'running Score plugins: plugin "{}" failed with: {}'


def config(**points: Any) -> dict[str, Any]:
    """Return a configuration that disables plugins at points."""
    plugins = {point: {"disabled": [{"name": n} for n in names]} for point, names in points.items()}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }


def message(settings: dict[str, Any], *policies: str) -> str:
    """Return why a plain pod cannot be placed on one of two empty nodes; "" if it can be."""
    scheduler = build(settings, policies)
    for name in ("n1", "n2"):
        scheduler.cache.add_node(make_node(name, cpu="4"))
    attempt = Attempt(
        QueuedPod(PodInfo.of(make_pod("p", cpu="1"))), scheduler.profiles["default-scheduler"]
    )
    found = decide(attempt, scheduler.cache.nodes, Random(0))
    if not isinstance(found, Reject):
        return ""
    assert found.status.code is Code.ERROR
    return found.message


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("NodePorts", 'reading "PreFilterNodePorts" from cycleState: not found'),
        (
            "NodeResourcesFit",
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        ),
        ("VolumeRestrictions", 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
        ("VolumeBinding", "not found"),
        ("PodTopologySpread", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        (
            "InterPodAffinity",
            'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        ),
        ("DynamicResources", "not found"),
    ],
)
def test_a_filter_without_its_pre_filter_fails(plugin: str, why: str) -> None:
    """VolumeBinding's condition had the words of an assertion, and other pods were placed."""
    assert message(config(preFilter=[plugin])) == FILTER.format(plugin, why)


@pytest.mark.parametrize("plugin", ["NodeAffinity", "VolumeZone"])
def test_filters_that_need_no_pre_filter(plugin: str) -> None:
    """They look themselves then."""
    assert message(config(preFilter=[plugin])) == ""


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("TaintToleration", 'failed to read "PreScoreTaintToleration" from cycleState: not found'),
        (
            "PodTopologySpread",
            'error reading "PreScorePodTopologySpread" from cycleState: not found',
        ),
        (
            "InterPodAffinity",
            'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
        ),
    ],
)
def test_a_score_without_its_pre_score_fails(plugin: str, why: str) -> None:
    """Nodes were scored without it."""
    assert message(config(preScore=[plugin])) == SCORE.format(plugin, why)
    for other in ("NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"):
        assert message(config(preScore=[other])) == ""


def test_a_policy_of_that_name_needs_nothing_else(tmp_path: Path) -> None:
    """What stands in for an in-tree plugin has no state that PreFilter would have to write."""
    policy = tmp_path / "ports.yaml"
    policy.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: NodePorts}\n"
        'spec: {filter: [{expression: node.name != "n1", message: taken}]}\n'
    )
    assert message(config(preFilter=["NodePorts"]), str(policy)) == ""


def test_a_plugin_that_fails_in_reserve_does_not_end_a_run_of_tests(tmp_path: Path) -> None:
    """`policy-sched test` ended with one line about a plugin, and no result of any scenario."""
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    for one in (node, pod):
        one["apiVersion"] = "v1"
    expect = [{"pod": "default/p", "chosen": "n1"}]
    common = {"kind": "PolicyTest", "objects": [node], "pending": [pod], "expect": expect}
    off = config(preFilter=["VolumeBinding"], filter=["VolumeBinding"])
    file = tmp_path / "both.jsonl"
    file.write_text(
        "".join(
            json.dumps({"name": name, **common, **settings, "bind": True}) + "\n"
            for name, settings in (("broken", {"config": off}), ("fine", {}))
        )
    )
    broken, fine = run_file(str(file))
    found = {one.field: one.got for one in broken.differences}
    assert found["message"] == 'running Reserve plugin "VolumeBinding": not found'
    assert "chosen" in found
    assert not any(one.field == "chosen" for one in fine.differences)
