"""The pods and nodes of the benchmarks."""

from __future__ import annotations

import msgspec
import pytest

from policy_sched.model.node import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.simulate.workloads import (
    DISTINCT,
    NODE_AFFINITY,
    WORKLOADS,
    Workload,
    init_pod_json,
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
    bound = PodInfo.of(msgspec.json.decode(init_pod_json(workload, 7, 3), type=Pod))
    assert bound.node_name == node_name(3)
    assert bound.requests == {"cpu": 100, "memory": 500 * 2**20}
    pod = PodInfo.of(msgspec.json.decode(pod_json(workload, 0), type=Pod))
    assert not pod.node_name
    assert pod.uid != bound.uid


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
