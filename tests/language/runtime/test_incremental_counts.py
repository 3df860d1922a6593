"""Promises about incremental counts: they equal the counts over every pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster.cache import Cache
from policy_sched.language.expression import BoundExpression
from policy_sched.language.runtime import incremental as counts
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.language.changing import NOW, assert_fresh, bound_to, change
from tests.language.harness import cache_of
from tests.language.oracle_world import World
from tests.language.strategies import worlds

#: Rules that count pods; all of them become counts.
COUNTING: Final = (
    "node.pods.filter(p, p.namespace == pod.namespace).size() < 2",
    "node.pods.filter(p, p.namespace == pod.namespace && p.priority >= pod.priority).size()",
    "pod.name == 'x' || node.pods.filter(p, p.ownerUID == pod.ownerUID).size() < 1",
    "node.pods.all(p, p.labels[?'app'].orValue('') in ['', pod.labels[?'app'].orValue('')])",
    "node.pods.exists(p, p.tolerations.exists(t, t.key == pod.name || t.operator == 'Exists'))",
    "node.pods.filter(p, p.priority > 0).all(p, p.namespace == 'a')",
    "node.pods.filter(p, p.priority <= 0).exists(p, p.requests['cpu'] >= pod.requests['cpu'])",
    "node.pods.filter(p, p.name in pod.labels).size()",
    "domain('zone').pods.filter(p, p.namespace == pod.namespace).size()",
    "!domain('zone').pods.all(p, p.namespace == 'a') || node.pods.exists(p, p.name == pod.name)",
    "domains('zone').map(d, d.pods.filter(p, p.namespace == pod.namespace).size()).sum()",
    "1 - domains('zone').map(d, d.pods.filter(p, p.priority > 0).size()).max()",
    "domains('zone').filter(d, d.pods.exists(p, p.name == pod.namespace)).size() + node.podCount",
)
#: Counts over all pods of the cluster, and the same as a condition on one pod.
TOTALS: Final[dict[str, Callable[[PodInfo, PodInfo], bool]]] = {
    "p.namespace == pod.namespace": lambda p, pod: p.namespace == pod.namespace,
    "p.priority >= pod.priority && p.priority > 0": lambda p, pod: (
        p.priority >= max(pod.priority, 1)
    ),
    "p.labels[?'app'] == pod.labels[?'app']": lambda p, pod: (
        p.labels.get("app") == pod.labels.get("app")
    ),
    "p.labels == pod.labels": lambda p, pod: p.labels == pod.labels,
    "p.requests['cpu'] >= pod.requests['cpu']": lambda p, pod: (
        p.requests.get("cpu", 0) >= pod.requests.get("cpu", 0)
    ),
    "true": lambda p, pod: True,
}


@pytest.mark.parametrize(
    ("text", "with_pods"), [(text, True) for text in COUNTING] + [(COUNTING[1], False)]
)
@given(data=st.data(), situation=worlds())
def test_counts_follow_the_cluster(
    text: str, with_pods: bool, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """After any change of the cluster, counts equal those of loops over all pods."""
    world, pod = situation
    cache = cache_of(world)
    bound = bound_to(text, cache, "any", with_pods=with_pods)
    assert "rt.counts.of" in bound.expression.program.text
    assert_fresh(bound, cache, pod)
    for step in range(3):
        change(data, cache, step)
        assert_fresh(bound, cache, pod)


@pytest.mark.parametrize(
    ("condition", "with_pods"),
    [(text, True) for text in TOTALS] + [("p.labels == pod.labels", False)],
)
@settings(max_examples=scaled(30))
@given(data=st.data(), situation=worlds())
def test_totals_are_those_of_a_recount(
    condition: str, with_pods: bool, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """Whatever happens to the cluster, each way of counting agrees."""
    world, pod = situation
    cache = cache_of(world)
    text = f"cluster.pods.filter(p, {condition})"
    number = bound_to(f"{text}.size()", cache, "any", with_pods=with_pods)
    some = bound_to(f"cluster.pods.exists(p, {condition})", cache, "any", with_pods=with_pods)
    every = bound_to(f"cluster.pods.all(p, {condition})", cache, "any", with_pods=with_pods)

    def agrees() -> None:
        table = cache.nodes
        there = [p for row in table.row_of.values() for p in table.pods_on(row).values()]
        count = sum(1 for p in there if TOTALS[condition](p, pod))
        assert number.scalar(pod, NOW, 0) == (count, 0)
        assert some.scalar(pod, NOW, 0) == (count > 0, 0)
        assert every.scalar(pod, NOW, 0) == (count == len(there), 0)
        assert set(values(number, pod)) <= {count}

    for step in range(3):
        if data.draw(st.booleans()):
            agrees()
        change(data, cache, step)
    agrees()


def crowd(count: int) -> Cache:
    """Return three nodes in two zones, with pods of namespaces a and b."""
    cache = Cache()
    for i in range(3):
        cache.add_node(make_node(f"n{i}", labels={"zone": f"z{i // 2}"}))
    for i in range(count):
        name = f"r{i}"
        pod = make_pod(name, namespace="ab"[i % 2], node_name=f"n{i % 3}")
        cache.add_pod(PodInfo.of(pod))
    return cache


def values(bound: BoundExpression, pod: PodInfo) -> list[object]:
    """Return what a rule makes of all rows."""
    found: list[object] = bound.vector(pod, NOW)[0]
    return found


def test_an_overlay_counts_its_own_pods() -> None:
    """Counts over an overlay include its pods; those over the table do not change."""
    cache = crowd(6)
    pod = PodInfo.of(make_pod("p", namespace="a"))
    for text, before, inside in (
        ("node.pods.filter(p, p.namespace == pod.namespace).size()", [1, 1, 1], [0, 1, 1]),
        ("domain('zone').pods.filter(p, p.namespace == pod.namespace).size()", [2, 2, 1],
         [1, 1, 1]),
        ("cluster.pods.filter(p, p.namespace == pod.namespace).size()", [3] * 3, [2] * 3),
    ):  # fmt: skip
        bound = bound_to(text, cache, "any")
        over = bound.expression.bind(cache.overlay, cache.pods)
        assert values(bound, pod) == before
        with cache.overlay as nodes:
            gone = next(p for p in nodes.pods_on(0).values() if p.namespace == "a")
            nodes.remove(0, gone)
            assert values(over, pod) == inside
            assert over.vector(pod, NOW, np.array([1, 0]))[0] == [inside[1], inside[0]]
            assert values(bound, pod) == before
        assert values(over, pod) == values(bound, pod) == before


def test_a_count_far_behind_is_computed_again() -> None:
    """Many changes at once, and many values, leave no count behind."""
    cache = crowd(0)
    bound = bound_to("node.pods.filter(p, p.namespace == pod.namespace).size()", cache, "any")
    asked = [PodInfo.of(make_pod("p", namespace=f"n{i}")) for i in range(counts.LIMIT + 5)]
    for number, pod in enumerate((*asked, *asked[:3], *asked[-3:])):
        assert values(bound, pod) == [0, 0, 0]
        assert number >= 0
    for i in range(thresholds.FEW_ROWS + 5):
        name = f"m{i}"
        cache.add_node(make_node(name))
        cache.add_pod(PodInfo.of(make_pod(name, namespace="n1", node_name=name)))
    assert sum(map(int, map(str, values(bound, asked[1])))) == thresholds.FEW_ROWS + 5


def test_equal_conditions_are_counted_once() -> None:
    """The same condition in two places of a rule is one count."""
    text = "domain('zone').pods.filter(p, p.namespace == pod.namespace).size() - {}"
    again = "domains('zone').map(d, d.pods.filter(q, q.namespace == pod.namespace).size()).min()"
    bound = bound_to(text.format(again), crowd(6), "any")
    vector = bound.expression.program.text.split("def vector")[1].split("def ")
    assert sum(part.count("rt.counts.of") for part in vector[:3]) == 1
    assert values(bound, PodInfo.of(make_pod("p", namespace="a"))) == [1, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "node.pods.exists(p, p.priority > node.podCount)",
        "node.pods.all(p, p.labels['app'] == 'a')",
        "domains('zone').exists(d, d.pods.exists(p, p.name == d.value))",
        "node.pods.map(p, p.priority).sum() > 0",
    ],
)
def test_what_cannot_be_counted_ahead(text: str) -> None:
    """Conditions that read the node or another list, or that may fail, stay loops."""
    bound = bound_to(text, crowd(6), "any")
    assert "rt.counts.of" not in bound.expression.program.text
    assert_fresh(bound, crowd(6), PodInfo.of(make_pod("p")))
