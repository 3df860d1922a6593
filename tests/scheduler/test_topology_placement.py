"""Groups with a topology constraint go to nodes with one value of its label."""

from __future__ import annotations

from typing import Final

import numpy as np

from policy_sched.plugins.pod_groups import by_value
from policy_sched.scheduler import event_handlers
from tests.scheduler import pod_groups

ALL: Final = {**pod_groups.GANG, "TopologyAwareWorkloadScheduling": True}
RACK: Final = "example.com/rack"
NONE: Final = "0/{} placements are available, first placement status: " + pod_groups.FAILED


def racks(*groups: object, **cpus: list[int]) -> pod_groups.Groups:
    """Return a scheduler with racks of nodes, which have so many cpus: rack a has a0, a1, ..."""
    run = pod_groups.Groups(*groups, gates=ALL)
    for rack, nodes in cpus.items():
        for i, cpu in enumerate(nodes):
            run.node(f"{rack}{i}", cpu, **{RACK: rack})
    return run


def test_all_of_a_group_goes_to_one_rack() -> None:
    """One in which enough of its pods have room."""
    run = racks(pod_groups.pod_group(count=3, topology=RACK), a=[2], b=[2, 2], c=[1])
    run.add(pod_groups.member("x"), pod_groups.member("y"), pod_groups.member("z"))
    run.go()
    assert {node[0] for node in run.bound.values()} == {"b"}
    assert len(run.bound) == 3


def test_the_fullest_rack_is_taken() -> None:
    """NodeResourcesFit scores placements as with MostAllocated."""
    run = racks(pod_groups.pod_group(count=2, topology=RACK), a=[8], b=[3], c=[4])
    run.add(pod_groups.member("x"), pod_groups.member("y"))
    run.go()
    assert set(run.bound.values()) == {"b0"}


def test_a_rack_for_more_pods_is_better() -> None:
    """PodGroupPodsCount outweighs a rack that is a little fuller."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK), a=[1], b=[3])
    run.add(pod_groups.member("x"), pod_groups.member("y"), pod_groups.member("z"))
    run.go()
    assert set(run.bound.values()) == {"b0"}


def test_pods_with_nodes_fix_the_rack() -> None:
    """Later pods of the group go where the first ones are, or nowhere."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK), a=[1], b=[9])
    event_handlers.pod_seen(run.scheduler, pod_groups.member("w", node_name="a0"))
    run.add(pod_groups.member("x"))
    run.go()
    assert run.bound == {}
    assert run.condition() == ("Unschedulable", NONE.format(1))
    assert run.message("x").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_group_in_two_racks_already() -> None:
    """It cannot be extended: an error that names both."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK), a=[2], b=[2])
    for name, node in (("v", "a0"), ("w", "b0")):
        event_handlers.pod_seen(run.scheduler, pod_groups.member(name, node_name=node))
    run.add(pod_groups.member("x"))
    run.go()
    words = (
        "cannot determine domain for already scheduled pods:"
        " more than 1 domain found for pod group: a, b"
    )
    assert run.condition() == ("SchedulerError", words)
    assert run.message("x") == words


def test_a_pod_on_a_node_without_the_label() -> None:
    """As with two racks."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK), a=[2])
    run.node("n", 2)
    event_handlers.pod_seen(run.scheduler, pod_groups.member("w", node_name="n"))
    run.add(pod_groups.member("x"))
    run.go()
    words = (
        "cannot determine domain for already scheduled pods:"
        " no topology domain found for pod default/w"
    )
    assert run.condition() == ("SchedulerError", words)


def test_no_node_has_the_label() -> None:
    """Then there is no placement."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK))
    run.node("n", 2)
    run.add(pod_groups.member("x"))
    run.go()
    assert run.condition() == ("Unschedulable", "no feasible placements found")
    assert run.message("x") == "no feasible placements found"


def test_no_pod_is_evicted_for_a_group_with_a_constraint() -> None:
    """Without a constraint its pods preempt as ever, on all nodes as the one placement."""
    run = racks(pod_groups.pod_group(count=1, topology=RACK), a=[1])
    run.run("v", "a0")
    run.add(pod_groups.member("x", priority=5))
    run.go()
    assert run.client.deleted == []
    assert run.message("x").endswith(
        "preemption: not eligible due to placement-based pod group scheduling limitation"
    )
    run = racks(pod_groups.pod_group(count=1), a=[1])
    run.run("v", "a0")
    run.add(pod_groups.member("x", priority=5))
    run.go()
    assert run.client.deleted == ["default/v"]


def test_placements_are_parted_over_columns() -> None:
    """Rows of each value, ascending; nodes without the label are in none, free rows neither."""
    run = racks(a=[1, 1], b=[1])
    run.node("n", 1)
    table = run.scheduler.handle.nodes
    found = {value: rows.tolist() for value, rows in by_value(table, RACK).items()}
    assert found == {"a": [0, 1], "b": [2]}
    event_handlers.node_gone(run.scheduler, table.nodes[0])  # type: ignore[arg-type]
    assert by_value(table, RACK)["a"].tolist() == [1]
    assert by_value(table, "missing") == {}
    assert np.concatenate(list(by_value(table, RACK).values())).size == 2
