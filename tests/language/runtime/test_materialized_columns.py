"""Promises about materialized columns: after any change, full passes equal fresh ones.

Point 1 of the language's test plan: rows brought up to date equal a full computation.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.language.runtime import incremental
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.language.changing import NOW, assert_fresh, bound_to, change
from tests.language.harness import agree, cache_of, evaluate
from tests.language.oracle_world import World
from tests.language.strategies import PARAMS, rules, worlds

#: Rules of which parts are kept: static and moving masks, shares, doubles, errors, strings.
KEPT: Final = (
    "node.podCount < node.allocatable['pods'].units() && pod.requests['cpu'] <= node.free['cpu']",
    "percent(node.capacity['cpu'] - pod.requests['cpu'] - node.free['cpu'], node.capacity['cpu'])",
    "percent(node.requested['memory'] + pod.requests['memory'], node.allocatable['memory'])",
    "percent(pod.requests['memory'] + node.requested['memory'], node.capacity['memory'])",
    "double((node.requested['cpu'] + pod.requests['cpu']).units()) / double(node.podCount)",
    "(5 - node.podCount + pod.containers.size() - node.requested['cpu'].units()) / 4",
    "(node.unschedulable || pod.priority > 0) && node.labels['zone'].startsWith('a')",
    "node.labels[?'zone'].orValue('none') == 'a' ? pod.priority : int(node.labels['rank'])",
    "node.taints.exists(t, t.effect == 'NoSchedule') || pod.priority < node.podCount",
    "!node.taints.all(t, pod.tolerates(t)) || node.podCount % 2 == 0",
    "[1, 2, 3].exists(n, n == node.podCount * 2 + pod.priority)",
)


@pytest.mark.parametrize("text", KEPT)
@given(data=st.data(), situation=worlds())
def test_materialized_columns_are_up_to_date(
    text: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """After any changes, a full pass equals a fresh pass."""
    world, pod = situation
    cache = cache_of(world)
    bound = bound_to(text, cache, "any")
    assert "def whole" in bound.expression.program.text
    assert_fresh(bound, cache, pod)
    for step in range(data.draw(st.integers(1, 3))):
        for i in range(data.draw(st.integers(1, 2))):
            change(data, cache, 10 * step + i)
        assert_fresh(bound, cache, pod)


#: What depends on other nodes than the row's, though only static columns are read by row.
ELSEWHERE = (
    "domain('zone').podCount + node.allocatable['cpu'].units()",
    "domain('zone').requested['cpu'].sign() > 0 && !node.unschedulable",
    "node.images[?'img:1'].optMap(i, i.numNodes).orValue(0) * 2",
    "domain('zone').nodeCount * 3",
    "[node][0].free['cpu'].units() + 1",
)


@pytest.mark.parametrize("text", ELSEWHERE)
@settings(max_examples=scaled(20))
@given(data=st.data(), situation=worlds())
def test_what_other_nodes_decide_is_not_kept(
    text: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """A change of another node is visible at once on every row that depends on it."""
    world, pod = situation
    cache = cache_of(world)
    bound = bound_to(text, cache, "any")
    assert_fresh(bound, cache, pod)
    for step in range(2):
        change(data, cache, step)
        assert_fresh(bound, cache, pod)


@pytest.mark.parametrize("section", ["filter", "score"])
@given(data=st.data(), situation=worlds())
def test_whatever_the_rule(
    section: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """Full passes over generated rules equal fresh passes, too."""
    world, pod = situation
    result = evaluate(data.draw(rules(section)), world, pod, section, PARAMS)
    assume(result is not None)
    assert result is not None
    cache = cache_of(world)
    bound = result.expression.bind(cache.nodes)
    for step in range(2):
        before = [agree(a, b) for a, b in zip(result.vector(), result.oracle(), strict=True)]
        assert all(before)
        assert_fresh(bound, cache, pod)
        change(data, cache, step)
    assert_fresh(bound, cache, pod)


@pytest.mark.parametrize("amount", [2**44, 2**46, 2**52, 2**53])
@pytest.mark.parametrize("text", KEPT[1:6])
def test_amounts_too_great_for_doubles(text: str, amount: int) -> None:
    """Amounts that doubles cannot hold are computed as whole numbers, on the node or the pod."""
    cache = Cache()
    for i in range(3):
        size = amount - i
        cache.add_node(make_node(f"n{i}", resources={"cpu": f"{size}m", "memory": str(size)}))
    bound = bound_to(text, cache, "any")
    for asked in (1, 2**20 + 1, amount // 3, amount - 1):
        pod = PodInfo.of(make_pod("p", requests={"cpu": f"{asked}m", "memory": str(asked)}))
        assert_fresh(bound, cache, pod)
        cache.assume(PodInfo.of(make_pod(f"p{asked}", requests={"cpu": f"{asked}m"})), "n1")
        assert_fresh(bound, cache, pod)


@pytest.mark.parametrize(
    ("rep", "number", "shown"),
    [
        ("i", 2**63 - 1, 2**63 - 1),
        ("i", 2**63, 7),
        ("i", -(2**63) - 1, 7),
        ("f", 99.5, 99.5),
        ("f", float("inf"), float("inf")),
        ("f", 100.0, None),
        ("f", -100.0, None),
    ],
)
def test_numbers_of_a_changed_row(rep: str, number: float, shown: float | None) -> None:
    """An int that arrays wrap has all rows computed; a double beyond its limit ends the use."""
    cache = Cache()
    cache.add_node(make_node("n"))
    columns = [incremental.MaterializedColumn(rep, None if rep == "i" else 100.0)]
    moving = incremental.ColumnGroup(columns, lambda _row: (number,), lambda _rows, _n: (7,))
    kept = incremental.MaterializedColumns(
        cache.nodes, incremental.ColumnGroup([], lambda _row: (), _nothing), moving
    )
    before = kept.arrays()
    assert before is not None
    assert before[0].tolist() == [7]
    cache.add_pod(PodInfo.of(make_pod("p", node_name="n")))
    after = kept.arrays()
    assert (None if after is None else after[0].tolist()) == (None if shown is None else [shown])


def _nothing(_rows: slice, _n: int) -> tuple[()]:
    return ()


@pytest.mark.parametrize("count", [1, thresholds.FEW_ROWS, thresholds.FEW_ROWS + 1])
def test_many_changes(count: int) -> None:
    """However many rows changed, all of them are up to date."""
    cache = Cache()
    for i in range(thresholds.FEW_ROWS + 5):
        cache.add_node(make_node(f"n{i}"))
    pod = PodInfo.of(make_pod("p", cpu="1"))
    for text in KEPT[:5]:
        bound = bound_to(text, cache, "any")
        assert_fresh(bound, cache, pod)
        for i in range(count):
            cache.assume(PodInfo.of(make_pod(f"{len(text)}-{i}", cpu="100m")), f"n{i}")
        assert_fresh(bound, cache, pod)


def test_an_overlay_has_no_materialized_columns() -> None:
    """A full pass over an overlay reads its columns; those of the table stay as they are."""
    cache = Cache()
    for i in range(4):
        cache.add_node(make_node(f"n{i}", cpu="4"))
        cache.add_pod(PodInfo.of(make_pod(f"r{i}", cpu="2", node_name=f"n{i}")))
    pod = PodInfo.of(make_pod("p", cpu="3"))
    bound = bound_to("node.free['cpu'] >= pod.requests['cpu'] && node.podCount < 1", cache, "any")
    before = bound.vector(pod, NOW)
    uids = [p.uid for i in range(4) for p in cache.nodes.pods_on(i).values()]
    block = np.array([[cache.pod_row(uid) for uid in uids]], np.intp)
    over = bound.expression.bind(cache.overlay)
    with cache.overlay as nodes:
        nodes.remove_block(np.arange(4), PodRows(cache.pods, block))
        assert over.vector(pod, NOW)[0] == [True] * 4
        assert bound.vector(pod, NOW) == before
    assert over.vector(pod, NOW) == before
    assert bound.vector(pod, NOW) == before == ([False] * 4, [0] * 4)


def test_kept_arrays_cannot_be_written() -> None:
    """A result that is a kept column itself is read-only."""
    cache = Cache()
    for i in range(3):
        cache.add_node(make_node(f"n{i}", cpu=str(i + 1)))
    bound = bound_to("node.allocatable['cpu'].units() * 2", cache, "any")
    (values,) = bound.functions.every_row(PodInfo.of(make_pod("p")), NOW, 3)
    assert values.tolist() == [2000, 4000, 6000]
    assert not values.flags.writeable
