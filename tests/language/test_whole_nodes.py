"""Resources and images of a node as a whole, and domains of a label that the pod names."""

from __future__ import annotations

import pytest

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

from .harness import rows_of
from .oracle_world import World

NODES = [
    make_node("n0", labels={"rack": "a"}),
    make_node("n1", labels={"rack": "b"}, images={"base": 1000, "tool": 5}),
    make_node("n2", labels={"rack": "a"}, images={"base": 1000, "n2": 7}),
]
PODS = [
    PodInfo.of(make_pod(f"p{i}", cpu="1", memory="1Gi", node_name=f"n{i % 2}")) for i in range(3)
]
POD = PodInfo.of(make_pod("p", cpu="2", labels={"key": "rack"}))

CASES: dict[str, list[object]] = {
    "node.free.names().size()": [3, 3, 3],
    '"cpu" in node.requested': [True, True, False],
    '"gpu" in node.free': [False, False, False],
    "node.requested.names().size()": [2, 2, 0],
    "node.allocatable.fitsIn(node.capacity)": [True, True, True],
    "node.images.size()": [0, 2, 2],
    'node.images.all(name, name != "tool")': [True, False, True],
    "node.images.exists(name, image, image.numNodes > 1)": [False, True, True],
    "node.images.transformMap(name, image, image.sizeBytes).size()": [0, 2, 2],
    "node.images[node.name].sizeBytes": ["no_such_key", "no_such_key", 7],
    'node.images[?"base"].optMap(image, image.numNodes).orValue(0)': [0, 2, 2],
    'domain(pod.labels["key"]).nodeCount': [2, 1, 2],
    'domains(pod.labels["key"]).size()': [2, 2, 2],
    'domain(pod.labels["key"]).pods.filter(p, p.namespace == pod.namespace).size()': [2, 1, 2],
    'domain(pod.labels["other"]).nodeCount': ["no_such_key"] * 3,
    '[quantity("1"), quantity("2")].sum() > node.free["cpu"]': [True, False, False],
    'quantity("4") * 2 == quantity("8")': [True] * 3,
    'quantity("1") / quantity("2")': [0.5] * 3,
    '{"cpu": node.free["cpu"].units()}["cpu"]': [2000, 3000, 4000],
}


@pytest.mark.parametrize("text", CASES)
def test_values_of_whole_nodes_are_the_same_in_three_ways(text: str) -> None:
    """The three ways agree, and say what is listed: a value, or the kind of the error."""
    found = [outcome.error or outcome.value for outcome in rows_of(text, World(NODES, PODS), POD)]
    assert found == CASES[text]
