"""Promises about read-sets: what a policy does not name as read never changes its result.

Point 6 of the language's test plan: equal signatures, equal masks and scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from hypothesis import assume, given, strategies as st

from policy_sched.model.cluster_objects import Node
from policy_sched.model.pod_info import PodInfo
from tests.language import strategies
from tests.language.harness import Outcome, evaluate
from tests.language.oracle_world import World

#: What a node's pods decide, and what other nodes do.
USAGE = {"requested", "nonZeroRequested", "free", "podCount", "pods", "usedPorts"}
OTHERS = {"domain", "cluster", "images"}


#: Where a node holds what a family is made of.
PLACES = {
    "labels": ("metadata", "labels"),
    "annotations": ("metadata", "annotations"),
    "creationTime": ("metadata", "creation_timestamp"),
    "taints": ("spec", "taints"),
    "unschedulable": ("spec", "unschedulable"),
    "allocatable": ("status", "allocatable"),
    "capacity": ("status", "capacity"),
    "free": ("status", "allocatable"),
    "conditions": ("status", "conditions"),
    "ready": ("status", "conditions"),
    "declaredFeatures": ("status", "declared_features"),
    "kubeletVersion": ("status", "node_info"),
}


def snake(name: str) -> str:
    """Return the Python name of a field."""
    return re.sub(r"(?<=[a-z])([A-Z]+)", r"_\1", name).lower()


def with_read_fields(pod: PodInfo, other: PodInfo, reads: Iterable[tuple[str, ...]]) -> PodInfo:
    """Return ``other`` with the fields that are read taken from ``pod``: the same signature."""
    made = PodInfo.of(other.pod)
    for name, *keys in reads:
        if name == "namespaceObject":
            made.namespace = pod.namespace
        elif not keys:
            setattr(made, snake(name), getattr(pod, snake(name)))
        else:
            whole, part = getattr(made, snake(name)), getattr(pod, snake(name))
            kept = {k: v for k, v in whole.items() if k != keys[0]}
            kept |= {k: part[k] for k in keys if k in part}
            setattr(made, snake(name), kept)
    return made


def with_read_families(node: Node, other: Node, reads: Iterable[str]) -> Node:
    """Return ``other``, named as ``node``, with the families that are read taken from ``node``."""
    made = msgspec.convert(msgspec.to_builtins(other), Node)
    made.metadata.name = node.metadata.name
    for name in reads:
        part, attribute = PLACES.get(name, ("metadata", "name"))
        setattr(getattr(made, part), attribute, getattr(getattr(node, part), attribute))
    return made


def outcomes(text: str, world: World, pod: PodInfo) -> list[Outcome]:
    """Evaluate a filter rule on every row."""
    result = evaluate(text, world, pod, section="filter", params=strategies.PARAMS)
    assert result is not None
    return result.vector()


@given(strategies.rules("filter"), strategies.worlds(), strategies.pods("another"))
def test_equal_signatures_give_equal_results(
    text: str, situation: tuple[World, PodInfo], another: object
) -> None:
    """A pod that equals another in all fields that a rule reads gets the same on each row."""
    world, pod = situation
    result = evaluate(text, world, pod, section="filter", params=strategies.PARAMS)
    assume(result is not None)
    assert result is not None
    twin = with_read_fields(pod, PodInfo.of(another), result.expression.reads.pod)  # type: ignore[arg-type]
    assert outcomes(text, world, twin) == result.vector()


@given(strategies.rules("filter"), strategies.worlds(), st.data())
def test_unread_node_data_never_changes_a_result(
    text: str, situation: tuple[World, PodInfo], data: st.DataObject
) -> None:
    """A node that changes only in families that a rule does not read gets the same."""
    world, pod = situation
    result = evaluate(text, world, pod, section="filter", params=strategies.PARAMS)
    assume(result is not None)
    assert result is not None
    reads = result.expression.reads.node
    assume(not reads & OTHERS)
    changed = [
        with_read_families(node, data.draw(strategies.nodes(node.metadata.name)), reads)
        for node in world.nodes
    ]
    bound = world.pods if reads & USAGE else []
    assert (
        outcomes(text, World(changed, bound, world.namespaces, world.now, world.group), pod)
        == result.vector()
    )
