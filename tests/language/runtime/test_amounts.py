"""Resources of many nodes together."""

from __future__ import annotations

import pytest

from policy_sched.language.runtime.context import Amounts


def test_a_total_is_read_without_looking_at_each_node() -> None:
    """Each read of `cluster.allocatable["pods"]` asked all nodes for the names of resources.

    It took 10 ms with 5,000 nodes, and each pod of Coscheduling made 8 of them.
    """
    asked = list[str]()

    def names() -> set[str]:
        asked.append("names")
        return {"cpu", "example.com/gpu"}

    amounts = Amounts(lambda name: 3, names)
    assert amounts["cpu"] == 3
    assert not asked


def test_a_name_that_nodes_state_with_nothing_is_there() -> None:
    """A total of 0 does not tell a resource that is used up from one that no node has."""
    amounts = Amounts(lambda name: 0, lambda: {"example.com/gpu"})
    assert amounts["example.com/gpu"] == 0
    with pytest.raises(KeyError):
        amounts["example.com/fpga"]
