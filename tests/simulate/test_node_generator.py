"""Nodes in a few words."""

from __future__ import annotations

import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.simulate.node_generator import generated_nodes


def test_nodes_are_numbered_through() -> None:
    """Each with its amounts, and room for 110 pods unless that is said otherwise."""
    nodes = list(generated_nodes(["2*cpu=4,memory=8Gi", "1*nvidia.com/gpu=8,pods=20"]))
    assert [node.metadata.name for node in nodes] == ["node-0001", "node-0002", "node-0003"]
    assert nodes[0].status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert nodes[2].status.allocatable == {"nvidia.com/gpu": "8", "pods": "20"}
    assert nodes[2].metadata.labels == {"kubernetes.io/hostname": "node-0003"}


@pytest.mark.parametrize("text", ["3", "x*cpu=4", "3*cpu", "3*cpu=", "3*=4", "3*cpu=four", "3*"])
def test_other_texts_are_refused(text: str) -> None:
    """With an example of how to write it, or what is wrong with the quantity."""
    with pytest.raises(PolicySchedError, match="--nodes"):
        list(generated_nodes([text]))
