"""The pods and nodes of the benchmarks."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from policy_sched.model.node import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.simulate.workloads import (
    DISTINCT,
    MIXED_BASE,
    NODE_AFFINITY,
    WORKLOADS,
    Workload,
    init_pods_json,
    node_json,
    node_name,
    pod_json,
)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_workloads_are_those_of_scheduler_perf(workload: Workload) -> None:
    """A node has 4 cpu and 110 pods, a pod asks for 100m and 500Mi (the distinct ones vary)."""
    node = msgspec.json.decode(node_json(workload, 3), type=Node)
    assert node.metadata.name == node_name(3)
    assert node.status.allocatable == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    pod = PodInfo.of(msgspec.json.decode(pod_json(workload, 0), type=Pod))
    assert not pod.node_name
    for i, bound in enumerate(init_pods(workload, 20)):
        assert bound.node_name == node_name(i % 20)
        assert bound.requests == {"cpu": 100, "memory": 500 * 2**20}
        assert pod.uid != bound.uid


def init_pods(workload: Workload, nodes: int) -> list[PodInfo]:
    """Return the init pods of a cluster of some size."""
    texts = init_pods_json(workload, nodes)
    return [PodInfo.of(msgspec.json.decode(text, type=Pod)) for text in texts]


def test_mixed_init_pods_are_of_five_kinds() -> None:
    """Plain, affinity, anti-affinity, and the preferred forms of both: a fifth each."""
    pods = init_pods(MIXED_BASE, 25)
    assert len(pods) == 50
    colors = Counter(pod.labels.get("color", "plain") for pod in pods)
    assert colors == dict.fromkeys(("plain", "green", "blue", "red", "yellow"), 10)
    assert [pod.has_pod_affinity for pod in pods[:20:10]] == [False, True]


def test_no_two_distinct_pods_are_alike() -> None:
    """Requests, labels and tolerations all differ."""
    pods = [PodInfo.of(msgspec.json.decode(pod_json(DISTINCT, i), type=Pod)) for i in range(500)]
    assert len({pod.requests_key for pod in pods}) == 500
    assert len({pod.labels_key for pod in pods}) == 500
    assert len({pod.tolerations for pod in pods}) == 500


def test_node_affinity_asks_for_the_zone_of_the_nodes() -> None:
    """Every node is in zone1, every pod asks for zone1 or zone2."""
    node = msgspec.json.decode(node_json(NODE_AFFINITY, 0), type=Node)
    pod = PodInfo.of(msgspec.json.decode(pod_json(NODE_AFFINITY, 0), type=Pod))
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone1"
    assert pod.node_affinity is not None
