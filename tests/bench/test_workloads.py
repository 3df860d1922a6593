"""The pods and nodes of the benchmarks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from policy_sched.bench import workloads
from policy_sched.bench.in_process import run_benchmark
from policy_sched.bench.manifests import node_name
from policy_sched.errors import PolicySchedError
from policy_sched.model.cluster_objects import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import required_node_names
from policy_sched.scheduler.setup.factory import build

SPECIAL = ("SchedulingDaemonset", "DefaultTopologySpreading")
"""Workloads whose pods ask for nothing."""


@pytest.mark.parametrize(
    "workload",
    [
        value
        for value in workloads.WORKLOADS.values()
        if value is not workloads.UNSCHEDULABLE_DISTINCT
    ],
)
def test_workloads_are_those_of_scheduler_perf(workload: workloads.Workload) -> None:
    """A node has 4 cpu and 110 pods; init pods are bound in turn, measured ones are not."""
    node = msgspec.json.decode(workloads.node_json(workload, 3), type=Node)
    assert node.metadata.name == node_name(3)
    assert node.status.allocatable == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    pod = PodInfo.of(msgspec.json.decode(workloads.pod_json(workload, 0), type=Pod))
    assert not pod.node_name
    assert pod.requests == {} if workload.name in SPECIAL else pod.requests["memory"]
    for i, bound in enumerate(init_pods(workload, 20)):
        assert bound.node_name == node_name(i % 20)
        assert bound.requests["memory"] == 500 * 2**20
        assert bound.requests["cpu"] == (900 if bound.name.startswith("low") else 100)
        assert pod.uid != bound.uid


def test_pods_that_churn_come_before_every_so_many_measured_ones() -> None:
    """So many as come in 200 ms where upstream's threshold is just met; no name comes twice."""
    assert workloads.UNSCHEDULABLE.churn_every == 170 // 5
    assert workloads.PREEMPTION_ASYNC.churn_every == 160 // 5
    first, second = (
        workloads.churn_json(workloads.UNSCHEDULABLE, start, 100) for start in (0, 100)
    )
    assert list(first) == list(second) == [0, 34, 68]
    pods = [
        PodInfo.of(msgspec.json.decode(text, type=Pod))
        for text in (*first.values(), *second.values())
    ]
    assert len({pod.uid for pod in pods}) == 6
    assert {(pod.priority, pod.requests["cpu"]) for pod in pods} == {(10, 9000)}
    assert workloads.churn_json(workloads.DISTINCT, 0, 100) == {}


def test_distinct_pods_fit_on_no_full_node() -> None:
    """Each has three reasons, and no two of them can share an answer."""
    pods = [
        PodInfo.of(
            msgspec.json.decode(workloads.pod_json(workloads.UNSCHEDULABLE_DISTINCT, i), type=Pod)
        )
        for i in range(60)
    ]
    assert len({(pod.requests_key, pod.tolerations) for pod in pods}) == 60
    scheduler = build(None, ())
    for i in range(6):
        scheduler.cache.add_node(
            msgspec.json.decode(workloads.node_json(workloads.UNSCHEDULABLE_DISTINCT, i), type=Node)
        )
    for bound in init_pods(workloads.UNSCHEDULABLE_DISTINCT, 6):
        scheduler.cache.add_pod(bound)
    for pod in pods[:3]:
        scheduler.add_pod(pod)
        outcome = scheduler.schedule_one()
        assert outcome is not None
        assert outcome.message.startswith(
            "0/6 nodes are available: 2 Insufficient cpu, 2 Insufficient memory,"
            " 2 node(s) had untolerated taint(s). "
        )


def test_a_pod_of_high_priority_needs_the_room_of_three_others() -> None:
    """Four pods of 900m leave 400m of a node; one of 3 cpu fits when three of them are gone."""
    pod = PodInfo.of(
        msgspec.json.decode(workloads.pod_json(workloads.PREEMPTION_BASIC, 0), type=Pod)
    )
    low = init_pods(workloads.PREEMPTION_BASIC, 1)
    assert (pod.priority, pod.requests["cpu"], len(low)) == (10, 3000, 4)
    assert {(item.priority, item.requests["cpu"]) for item in low} == {(0, 900)}


def test_daemon_pods_need_the_node_with_a_name_of_its_own() -> None:
    """The first node is named, and has room for all of them."""
    node = msgspec.json.decode(workloads.node_json(workloads.DAEMON_SET, 0), type=Node)
    pod = PodInfo.of(msgspec.json.decode(workloads.pod_json(workloads.DAEMON_SET, 0), type=Pod))
    assert required_node_names(pod.node_affinity) == {node.metadata.name}
    assert node.status.allocatable["pods"] == "90000"


def test_a_dry_run_meets_full_nodes_and_budgets() -> None:
    """Ten pods of several priorities and groups fill a node, and three groups have a budget."""
    low = init_pods(workloads.DRY_RUN, 50)
    here = [pod for pod in low if pod.node_name == node_name(7)]
    assert sum(pod.requests["cpu"] for pod in here) == 4000
    assert len(here) == 10
    assert len({pod.priority for pod in here}) > 1
    assert len({pod.labels["group"] for pod in low}) == len(workloads.DRY_RUN.objects) + 1


def init_pods(workload: workloads.Workload, nodes: int) -> list[PodInfo]:
    """Return the init pods of a cluster of some size."""
    texts = workloads.init_pods_json(workload, nodes)
    return [PodInfo.of(msgspec.json.decode(text, type=Pod)) for text in texts]


def test_mixed_init_pods_are_of_five_kinds() -> None:
    """Plain, affinity, anti-affinity, and the preferred forms of both: a fifth each."""
    pods = init_pods(workloads.MIXED_BASE, 25)
    assert len(pods) == 50
    colors = Counter(pod.labels.get("color", "plain") for pod in pods)
    assert colors == dict.fromkeys(("plain", "green", "blue", "red", "yellow"), 10)
    assert [pod.has_pod_affinity for pod in pods[:20:10]] == [False, True]


def test_no_two_distinct_pods_are_alike() -> None:
    """Requests, labels and tolerations all differ."""
    pods = [
        PodInfo.of(msgspec.json.decode(workloads.pod_json(workloads.DISTINCT, i), type=Pod))
        for i in range(500)
    ]
    assert len({pod.requests_key for pod in pods}) == 500
    assert len({pod.labels_key for pod in pods}) == 500
    assert len({pod.tolerations for pod in pods}) == 500


def test_node_affinity_requires_the_zone_of_the_nodes() -> None:
    """Every node is in zone1, every pod asks for zone1 or zone2."""
    node = msgspec.json.decode(workloads.node_json(workloads.NODE_AFFINITY, 0), type=Node)
    pod = PodInfo.of(msgspec.json.decode(workloads.pod_json(workloads.NODE_AFFINITY, 0), type=Pod))
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone1"
    assert pod.node_affinity is not None


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
    workload = workloads.workload_from_test(workloads.BASIC, scenario(tmp_path))
    first, second, third = (json.loads(workloads.node_json(workload, i)) for i in range(3))
    assert first["metadata"]["labels"]["rack"] == third["metadata"]["labels"]["rack"] == "r1"
    assert first["metadata"]["name"] != third["metadata"]["name"]
    assert third["metadata"]["labels"]["kubernetes.io/hostname"] == third["metadata"]["name"]
    assert first["metadata"]["annotations"] == {"note": "x"}
    assert first["status"]["allocatable"]["example.com/gpu"] == "8"
    assert first["status"]["allocatable"]["cpu"] == "4"
    assert [taint["key"] for taint in second["spec"]["taints"]] == ["spot"]


def test_pods_look_like_the_first_that_waits(tmp_path: Path) -> None:
    """Labels, owner, priority and devices are the scenario's; the cpu is the benchmark's."""
    pod = json.loads(
        workloads.pod_json(workloads.workload_from_test(workloads.BASIC, scenario(tmp_path)), 3)
    )
    assert (pod["metadata"]["namespace"], pod["metadata"]["name"]) == ("team", "pod-000003")
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["ownerReferences"][0]["name"] == "web"
    assert pod["spec"]["priority"] == 7
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "500Mi", "example.com/gpu": "2"}


def test_such_a_workload_runs(tmp_path: Path) -> None:
    """Pods that want devices go to nodes that have them, up to the last device."""
    workload = workloads.workload_from_test(workloads.BASIC, scenario(tmp_path))
    assert run_benchmark(workload, 4, 9).unschedulable == 1
    assert workload.note == f"nodes and pods look like those of {tmp_path / 'tests.yaml'}"
    assert [obj["kind"] for obj in workload.objects] == ["Namespace"]


@pytest.mark.parametrize("body", ["objects: [{node: a}]\n", "pending: [{pod: a}]\nexpect: []\n"])
def test_a_scenario_without_nodes_or_pods_is_rejected(tmp_path: Path, body: str) -> None:
    """A node, and a pod that waits."""
    with pytest.raises(PolicySchedError, match="no node or no pending pod"):
        workloads.workload_from_test(workloads.BASIC, scenario(tmp_path, body))


@pytest.mark.parametrize("workload", workloads.WITH_INPUTS)
def test_a_line_says_the_share_of_scheduling_basic(workload: workloads.Workload) -> None:
    """Pods of each team count to its quota, and each container finds a zone: all are bound."""
    result = run_benchmark(workload, 20, 10)
    assert result.unschedulable == 0
    assert result.share is not None
    assert result.share > 0
    line = f"  {result.share:.2f} of SchedulingBasic's rate in a second of CPU, measured in turns"
    assert line in result.text_lines()
    assert run_benchmark(workloads.BASIC, 20, 10).share is None
