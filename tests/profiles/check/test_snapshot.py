"""Lints against a snapshot of a cluster: each warns at a place, and near misses are silent."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from policy_sched.manifests.load import load
from policy_sched.profiles.check.check import check_all
from policy_sched.profiles.check.snapshot import SAMPLE, Snapshot, snapshot_of
from policy_sched.testing import make_node, make_pod

CLUSTER = """\
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {topology.example.com/rack: r1, tier: gold}
  annotations: {example.com/free-milli: "500"}
spec: {taints: [{key: example.com/dedicated, effect: NoSchedule, value: ml}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110", example.com/gpu: "2"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {tier: iron}}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {tenant: a}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: batch}
value: 10
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {metadata: {labels: {app: web}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: small, labels: {size: s}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large, labels: {size: l}}
spec: {containers: [{name: c, resources: {requests: {cpu: "64"}}}]}
"""
HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: A}\nspec:\n"


@pytest.fixture(name="cluster")
def fixture_cluster(tmp_path: Path) -> Snapshot:
    """Return two nodes and two pods."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    manifests = load([str(file)])
    assert not manifests.diagnostics
    return snapshot_of(manifests.objects)


def told(
    tmp_path: Path, spec: dict[str, object], snapshot: Snapshot, config: str = ""
) -> list[str]:
    """Return code, words under the caret and message of the problems of a policy."""
    file = tmp_path / "policy.yaml"
    body = yaml.safe_dump({"spec": spec}, width=1000).removeprefix("spec:\n")
    text = HEAD + body + (f"---\n{config}" if config else "")
    file.write_text(text, encoding="utf-8")
    found = check_all([str(file)], snapshot.lint).diagnostics
    return [
        f"{one.code} {one.source_line[one.column - 1 :][: one.width]}: {one.message}"
        for one in found
    ]


def filtered(tmp_path: Path, rule: str, snapshot: Snapshot) -> list[str]:
    """Return the problems of a policy with one filter rule."""
    rules = [{"expression": rule, "onError": "Allow"}]
    return told(tmp_path, {"filter": rules}, snapshot)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            'node.labels[?"topology.example.com/rakc"] != optional.of("r1")',
            (
                '"topology.example.com/rakc": no node of the snapshot has the label '
                "'topology.example.com/rakc'; did you mean 'topology.example.com/rack'?"
            ),
        ),
        (
            "!has(node.labels.teir)",
            ("teir: no node of the snapshot has the label 'teir'; did you mean 'tier'?"),
        ),
        (
            '!("example.com/fre-milli" in node.annotations)',
            (
                '"example.com/fre-milli": no node of the snapshot has the annotation '
                "'example.com/fre-milli'; did you mean 'example.com/free-milli'?"
            ),
        ),
        (
            'node.pods.all(p, p.labels[?"sise"] != optional.of("s"))',
            "\"sise\": no pod of the snapshot has the label 'sise'; did you mean 'size'?",
        ),
        (
            'namespaceObject.labels[?"tennant"] == optional.none()',
            (
                '"tennant": no namespace of the snapshot has the label '
                "'tennant'; did you mean 'tenant'?"
            ),
        ),
        (
            'node.free["example.com/gpus"] <= pod.requests["example.com/gpus"]',
            (
                '"example.com/gpus": no node or pod of the snapshot has the resource '
                "'example.com/gpus'; did you mean 'example.com/gpu'?"
            ),
        ),
        (
            'pod.priorityClassName != "bacth"',
            "\"bacth\": no priority class of the snapshot is 'bacth'; did you mean 'batch'?",
        ),
        (
            '!(pod.priorityClassName in ["batch", "urgent"])',
            "\"urgent\": no priority class of the snapshot is 'urgent'",
        ),
        (
            'node.taints.all(t, t.key != "example.com/dedicate")',
            (
                '"example.com/dedicate": no node of the snapshot has a taint '
                "'example.com/dedicate'; did you mean 'example.com/dedicated'?"
            ),
        ),
        (
            '!pod.tolerates(taint("dedicated", "", "NoSchedule"))',
            "\"dedicated\": no node of the snapshot has a taint 'dedicated'",
        ),
        (
            'selector("tier in (gold, iron), !example.com/teir").matches(node.labels)',
            "example.com/teir: no node of the snapshot has the label 'example.com/teir'",
        ),
        (
            'node.pods.all(p, !selector("sise=s,size").matches(p.labels))',
            "sise: no pod of the snapshot has the label 'sise'; did you mean 'size'?",
        ),
        (
            'domain("rack").podCount < 9',
            "\"rack\": no node of the snapshot has the label 'rack'",
        ),
    ],
)
def test_a_name_that_the_snapshot_has_not(
    tmp_path: Path, cluster: Snapshot, rule: str, words: str
) -> None:
    """It is reported under the name, with the name that was meant."""
    found = filtered(tmp_path, rule, cluster)
    assert set(found) == {f"PS410 {words}"}


@pytest.mark.parametrize(
    "rule",
    [
        'node.labels[?"topology.example.com/rack"] != optional.of("r1")',
        "has(node.labels.tier)",
        '!("example.com/free-milli" in node.annotations)',
        'node.pods.all(p, p.labels[?"size"] != optional.of("s"))',
        'node.pods.all(p, p.labels[?"app"] != optional.of("s"))',
        'namespaceObject.labels[?"tenant"] != optional.none()',
        'node.free["example.com/gpu"] >= pod.requests["example.com/gpu"]',
        'pod.requests["ephemeral-storage"] <= node.free["ephemeral-storage"]',
        'pod.priorityClassName in ["batch", "system-node-critical", ""]',
        'node.taints.all(t, t.key != "example.com/dedicated")',
        '!pod.tolerates(taint("node.kubernetes.io/not-ready", "", "NoSchedule"))',
        'domain("topology.example.com/rack").podCount < 9',
    ],
)
def test_a_name_that_the_snapshot_has(tmp_path: Path, cluster: Snapshot, rule: str) -> None:
    """Labels of a workload's pods count, and so does what Kubernetes itself has."""
    assert filtered(tmp_path, rule, cluster) == []


def test_a_snapshot_says_nothing_of_kinds_that_it_has_not(tmp_path: Path) -> None:
    """Nodes alone: no word about labels of pods and namespaces, or priority classes."""
    nodes = snapshot_of([make_node("n1")])
    rule = (
        'namespaceObject.labels[?"x"].hasValue() || pod.labels[?"y"].hasValue() || '
        'pod.priorityClassName == "z"'
    )
    assert filtered(tmp_path, rule, nodes) == []
    nothing = snapshot_of([])
    assert filtered(tmp_path, 'node.labels[?"x"].hasValue() && node.podCount < 0', nothing) == [
        "PS402 node.podCount < 0: this is always false"
    ]


def test_names_in_variables_and_functions_are_looked_at(tmp_path: Path, cluster: Snapshot) -> None:
    """At their own places; what a parameter names is not."""
    spec: dict[str, object] = {
        "params": {"label": "nowhere"},
        "functions": [
            {"name": "f", "params": {"x": "string"}, "expression": 'node.labels[?"ter"].orValue(x)'}
        ],
        "variables": [{"name": "v", "expression": 'node.labels[?"tiers"].orValue("")'}],
        "filter": [{"expression": 'variables.v != f(node.labels[?params.label].orValue("a"))'}],
    }
    assert [line.partition(":")[0] for line in told(tmp_path, spec, cluster)] == [
        'PS410 "ter"',
        'PS410 "tiers"',
    ]


NO_NODE = "this rule rejects every node of the snapshot"
FOR_NO_POD = f"{NO_NODE}, for every pod that the policy is about"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('node.allocatable["cpu"] > quantity("8")', NO_NODE),
        ('node.allocatable["cpu"] > quantity("3")', ""),
        ('pod.requests["cpu"] >= quantity("65")', FOR_NO_POD),
        ('pod.requests["cpu"] >= quantity("64")', ""),
        ('pod.requests["cpu"] <= node.free["cpu"] && node.labels["tier"] == "copper"', FOR_NO_POD),
        ('pod.requests["cpu"] <= node.free["cpu"] && node.labels["tier"] == "iron"', ""),
        ("now > timestamp('2100-01-01T00:00:00Z')", ""),
    ],
)
def test_a_rule_that_rejects_the_whole_snapshot(
    tmp_path: Path, cluster: Snapshot, rule: str, message: str
) -> None:
    """By itself, or for each of its pods; the moment of a snapshot is not known."""
    rules = [{"expression": rule, "onError": "Reject"}]
    found = told(tmp_path, {"filter": rules, "requeue": {"every": "1m"}}, cluster)
    expected = [f"PS411 {rule}: {message}"] if message else []
    assert [line for line in found if "PS421" not in line] == expected


def test_rules_are_distinguished(tmp_path: Path, cluster: Snapshot) -> None:
    """Each rule is taken as if it were alone, for the pods that the policy is about."""
    small, large = 'node.labels[?"tier"] == optional.of("iron")', "node.podCount > pod.priority"
    rules = [{"expression": small}, {"expression": large}]
    about_large = {"matchConditions": ['pod.labels[?"size"] == optional.of("l")'], "filter": rules}
    assert told(tmp_path, about_large, cluster) == [f"PS411 {large}: {FOR_NO_POD}"]
    about_nobody = {"matchConditions": ["pod.hostNetwork"], "filter": rules}
    assert told(tmp_path, about_nobody, cluster) == []


CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: A}]}}
  pluginConfig: [{name: A, args: {tier: %s}}]
"""


def test_parameters_are_those_of_the_configuration(tmp_path: Path, cluster: Snapshot) -> None:
    """Without one, the policy's own."""
    rule = "node.labels[?'tier'] == optional.of(params.tier)"
    spec = {"params": {"tier": "copper"}, "filter": [{"expression": rule}]}
    warning = [f"PS411 {rule}: {NO_NODE}"]
    assert told(tmp_path, spec, cluster) == warning
    assert told(tmp_path, spec, cluster, CONFIG % "gold") == []
    assert told(tmp_path, spec, cluster, CONFIG % "silver") == warning


def test_of_many_pods_some_are_looked_at() -> None:
    """Every n-th, at most as many as the sample has."""
    pods = [make_pod(f"p{i}") for i in range(2 * SAMPLE + 1)]
    sample = snapshot_of(pods).pods
    assert [pod.name for pod in sample[:3]] == ["p0", "p3", "p6"]
    assert len(sample) <= SAMPLE
    assert len(snapshot_of(pods[:SAMPLE]).pods) == SAMPLE


def test_pods_that_have_ended_do_not_count() -> None:
    """Neither as names nor as pods."""
    ended = make_pod("old", labels={"size": "s"})
    ended.status.phase = "Succeeded"
    found = snapshot_of([ended])
    assert (found.pods, found.vocabulary.labels) == ((), {})


DEVICES = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: a100}}
    capacity: {gpu.example.com/memory: {value: 80Gi}}
"""


def test_names_of_devices_are_those_of_its_slices(tmp_path: Path) -> None:
    """Attributes and capacities in every spelling; without slices none is warned about."""
    policy = HEAD + (
        "  devices:\n"
        "    filter:\n"
        "    - expression: device.free['gpu.example.com/memory'].sign() > 0\n"
        "    - expression: device.free['memory'].sign() > 0\n"
        "    - expression: device.attributes[?'gpu.example.com/modell'].hasValue()\n"
        "    - expression: \"'model' in device.attributes\"\n"
        "    score:\n"
        "      expression: device.consumed['milli'].units()\n"
        "  filter:\n"
        "  - expression: node.devices.exists(d, d.shares > 0)\n"
        "  - expression: allocation.devices.size() > 0\n"
    )
    (tmp_path / "policy.yaml").write_text(policy)
    for text, expected in (
        (CLUSTER, []),
        (
            CLUSTER + DEVICES,
            [
                (
                    "no device of the snapshot has the attribute 'gpu.example.com/modell'; did "
                    "you mean 'gpu.example.com/model'?"
                ),
                "no device of the snapshot has the capacity 'milli'",
            ],
        ),
    ):
        (tmp_path / "cluster.yaml").write_text(text)
        snapshot = snapshot_of(load([str(tmp_path / "cluster.yaml")]).objects)
        found = check_all([str(tmp_path / "policy.yaml")], snapshot.lint)
        shown = [one.message for one in found.diagnostics]
        assert [one for one in shown if "this rule can fail" not in one] == expected
