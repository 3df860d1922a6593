"""Benchmarks whose nodes and pods look like those of a scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.bench.in_process import run_benchmark
from policy_sched.bench.workload_from_tests import workload_from_test
from policy_sched.bench.workloads import BASIC, node_json, pod_json
from policy_sched.errors import PolicySchedError

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: one\npolicies: []\n"
BODY = """\
objects:
- {namespace: team, labels: {tenant: a}}
- {node: n1, cpu: 64, labels: {rack: r1}, annotations: {note: x}, resources: {example.com/gpu: 8}}
- {node: n2, taints: ["spot:NoSchedule"]}
- {pod: old, node: n1}
pending:
- pod: team/wanted
  cpu: 32
  requests: {example.com/gpu: 2}
  labels: {app: web}
  owner: web
  priority: 7
  tolerations: [{key: spot, operator: Exists}]
- {pod: other}
expect: []
"""


def scenario(tmp_path: Path, body: str = BODY) -> str:
    """Return the path of a file with one scenario."""
    file = tmp_path / "tests.yaml"
    file.write_text(HEAD + body, encoding="utf-8")
    return str(file)


def test_nodes_look_like_those_of_the_scenario_in_turn(tmp_path: Path) -> None:
    """Labels, annotations, taints and devices are the scenario's; name and cpu are not."""
    workload = workload_from_test(BASIC, scenario(tmp_path))
    first, second, third = (json.loads(node_json(workload, i)) for i in range(3))
    assert first["metadata"]["labels"]["rack"] == third["metadata"]["labels"]["rack"] == "r1"
    assert first["metadata"]["name"] != third["metadata"]["name"]
    assert third["metadata"]["labels"]["kubernetes.io/hostname"] == third["metadata"]["name"]
    assert first["metadata"]["annotations"] == {"note": "x"}
    assert first["status"]["allocatable"]["example.com/gpu"] == "8"
    assert first["status"]["allocatable"]["cpu"] == "4"
    assert [taint["key"] for taint in second["spec"]["taints"]] == ["spot"]


def test_pods_look_like_the_first_that_waits(tmp_path: Path) -> None:
    """Labels, owner, priority and devices are the scenario's; the cpu is the benchmark's."""
    pod = json.loads(pod_json(workload_from_test(BASIC, scenario(tmp_path)), 3))
    assert (pod["metadata"]["namespace"], pod["metadata"]["name"]) == ("team", "pod-000003")
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["ownerReferences"][0]["name"] == "web"
    assert pod["spec"]["priority"] == 7
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "500Mi", "example.com/gpu": "2"}


def test_such_a_workload_runs(tmp_path: Path) -> None:
    """Pods that want devices go to nodes that have them, up to the last device."""
    workload = workload_from_test(BASIC, scenario(tmp_path))
    assert run_benchmark(workload, 4, 9).warm.unschedulable == 1
    assert workload.note == f"nodes and pods look like those of {tmp_path / 'tests.yaml'}"
    assert [one["kind"] for one in workload.objects] == ["Namespace"]


@pytest.mark.parametrize("body", ["objects: [{node: a}]\n", "pending: [{pod: a}]\nexpect: []\n"])
def test_there_must_be_something_to_look_like(tmp_path: Path, body: str) -> None:
    """A node, and a pod that waits."""
    with pytest.raises(PolicySchedError, match="no node or no pending pod"):
        workload_from_test(BASIC, scenario(tmp_path, body))
