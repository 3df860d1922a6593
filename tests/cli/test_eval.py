"""The verb `eval`: one expression's type, cost, places and values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
CLUSTER = str(POLICIES / "example-cluster" / "manifests")
PODS = f"{CLUSTER}/pending.yaml"
NODES = f"{CLUSTER}/nodes.yaml"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what eval prints; it must succeed."""
    assert run(["eval", *arguments]) == 0
    return capsys.readouterr().out


def without_cost(printed: str) -> str:
    """Return what was printed without the estimate, which is measured anew now and then."""
    return "".join(line for line in printed.splitlines(True) if not line.startswith("cost"))


def test_a_rule_on_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    """Each part has its place, each node its value; the cost is shown in nanoseconds."""
    text = 'percent(node.requested["cpu"] + pod.requests["cpu"], node.allocatable["cpu"])'
    printed = told(capsys, text, "--cluster", CLUSTER, "--pod", PODS, "--section", "score")
    assert "cost   " in printed
    assert "for 5,000 nodes" in printed
    assert (
        without_cost(printed)
        == """\
type   int, range [0, 100]

percent(node.requested["cpu"] + pod.requests["cpu"], no...  per pod and node
  node.requested["cpu"] + pod.requests["cpu"]               per pod and node
    node.requested["cpu"]                                   per node, kept until pods come or go
    pod.requests["cpu"]                                     once per pod
      pod.requests                                          once per pod
  node.allocatable["cpu"]                                   per node, kept until the node changes

control-1  27
general-1  43
general-2  50
spot-1     6
gpu-1      39
gpu-2      1
"""
    )


def test_a_node_whose_value_fails_has_the_kind_of_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A node whose label is missing has an error in place of a value; kinds are counted."""
    printed = told(capsys, 'node.labels["disk"]', "--node", NODES)
    assert 'general-1  "ssd"\n' in printed
    assert "spot-1     error PS601: no such key 'disk'\n" in printed
    assert printed.endswith("5 of 6 nodes have no value: 5 no such key 'disk' (PS601)\n")


def test_a_constant_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """What reads nothing is computed when it is loaded, and costs nothing per node."""
    assert (
        told(capsys, "[1, 2, 3].map(x, x * 2).sum()")
        == """\
type   int, range [12, 12]
cost   no work per node

[1, 2, 3].map(x, x * 2).sum()  once, when the policy is loaded
  [1, 2, 3].map(x, x * 2)      once, when the policy is loaded
    [1, 2, 3]                  once, when the policy is loaded
    x * 2                      for each element

value  12
"""
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pod.requests", "{cpu: 1000, memory: 2147483648}"),
        ('pod.requests["cpu"]', "1"),
        ('pod.requests["memory"]', "2Gi"),
        ('pod.labels[?"app"]', 'optional.of("web")'),
        ('pod.labels[?"none"]', "optional.none()"),
        ('duration("90m")', "5400s"),
        ("pod.creationTime", "2026-01-05T08:01:00Z"),
        ('{"a": [1.5, 2.0]}', '{"a": [1.5, 2]}'),
        ("pod", "Pod(shop/web-1)"),
        ('semver("1.2.3")', "semver"),
        ('taint("a", "b", "NoSchedule")', 'Taint{key: "a", value: "b", effect: "NoSchedule"}'),
    ],
)
def test_values_are_written_as_in_a_rule(
    capsys: pytest.CaptureFixture[str], text: str, value: str
) -> None:
    """Quantities, times, optionals and records have words."""
    assert told(capsys, text, "--pod", PODS).endswith(f"\nvalue  {value}\n")


def test_a_policy_lends_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters, functions and variables of a policy are visible."""
    policy = str(POLICIES / "fragmentation-gradient" / "policy.yaml")
    document = json.loads(
        told(
            capsys,
            "[variables.need, fragment(100, params.typical[0].gpu)]",
            *("--policy", policy, "--pod", PODS, "-o", "json"),
        )
    )
    assert document["type"] == "list(int)"
    assert document["values"] == [{"node": None, "value": [0, 100]}]
    assert document["parts"]["computed"] == "once per pod"


def test_pods_of_the_cluster_are_counted_once_per_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """No part of such a count is shown as computed for each node."""
    text = 'cluster.pods.filter(p, p.namespace == "shop").size()'
    printed = told(capsys, text, "--cluster", CLUSTER)
    assert "value  3" in printed
    assert "per pod and node" not in printed


def test_json_has_a_value_for_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    """Values are plain data, errors have code and words, parts are a tree."""
    document = json.loads(told(capsys, 'node.labels["disk"]', "--node", NODES, "-o", "json"))
    assert document["values"][1] == {"node": "general-1", "value": "ssd"}
    assert document["values"][0] == {
        "node": "control-1",
        "error": "no such key 'disk'",
        "code": "PS601",
    }
    assert document["parts"]["parts"] == []
    assert document["cost"]["unit"] == "ns"


def test_a_mistake_has_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake is shown as in a file, and fails the command."""
    assert run(["eval", 'node.fre["cpu"]', "--node", NODES]) == 1
    assert (
        capsys.readouterr().err
        == """\
<expression>:1:6: error PS102: Node has no field 'fre'; did you mean 'free'?
    1 | node.fre["cpu"]
      |      ^~~
"""
    )


def test_a_section_expects_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    """In a section an expression has the names and the type of that section."""
    assert run(["eval", "1 + 1", "--section", "filter"]) == 1
    assert "PS301" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pod.priority"], "the expression reads the pod: name a file with one by --pod"),
        (
            ["node.podCount"],
            "the expression reads nodes: give some by --node, --cluster or --kubeconfig",
        ),
        (["1", "--section", "filtre"], "there is no section \"filtre\"; did you mean 'filter'?"),
        (["1", "--pod", NODES], "there is no pod"),
        (["score + 1"], "score has a value only while a decision is made"),
        (["device.shares + 1"], "device has a value only while a decision is made"),
        (["allocation.devices.size()"], "allocation has a value only while a decision is made"),
        (["node.devices.size()"], "node.devices has a value only while a decision is made"),
        (["1", "--policy", str(POLICIES / "default" / "policy.yaml")], "one policy is needed here"),
    ],
)
def test_what_is_missing_is_reported(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """A pod, nodes or a policy that is needed and not given is named."""
    assert run(["eval", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_pod_has_just_come_into_the_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`eval queue.enqueuedAt` ended with a traceback: the pod was in no queue."""
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    at = ["--pod", str(tmp_path / "pod.yaml"), "--now", "2026-03-01T22:00:00Z"]
    for rule, value in (
        ("queue.enqueuedAt", "2026-03-01T22:00:00Z"),
        ("queue.attempts", "0"),
        ("now - queue.firstEnqueuedAt", "0s"),
    ):
        assert run(["eval", rule, *at]) == 0
        assert capsys.readouterr().out.splitlines()[-1].split() == ["value", value]


def test_the_pod_is_admitted_with_the_classes_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`eval --pod` refused a pod whose PriorityClass is in the cluster, which simulate takes."""
    (tmp_path / "cluster.yaml").write_text(
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}"
    )
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {priorityClassName: high}}"
    )
    given = ["--pod", str(tmp_path / "pod.yaml"), "--cluster", str(tmp_path / "cluster.yaml")]
    assert "value  7" in told(capsys, "pod.priority", *given)
