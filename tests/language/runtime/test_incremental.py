"""Promises about incremental counts: they equal the counts over every pod.

Promises about materialized columns: after any change, full passes equal fresh ones.

Point 1 of the language's test plan: rows brought up to date equal a full computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.language.expression import BoundExpression
from policy_sched.language.runtime import incremental, incremental as counts
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.language.changing import NOW, assert_fresh, bound_to, change
from tests.language.harness import agree, cache_of, evaluate
from tests.language.oracle_world import World
from tests.language.strategies import PARAMS, rules, worlds

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
    "node.pods.filter(p, p.namespace == pod.namespace).sum(p, p.priority)",
    "node.pods.sum(p, p.priority > pod.priority ? -1 : 2) <= pod.priority",
    "domain('zone').pods.filter(p, p.labels[?'app'] == pod.labels[?'app']).sum(p, p.priority)",
    "domains('zone').map(d, d.pods.sum(p, min(p.requests['cpu'].units(), 4000000))).max()",
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
@settings(max_examples=scaled(30))
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
    total = bound_to(f"{text}.sum(p, p.priority - 1)", cache, "any", with_pods=with_pods)
    amount = f"p.priority > 0 ? {2**63 - 1} : p.requests['memory'].units()"
    wide = bound_to(f"{text}.sum(p, {amount})", cache, "any", with_pods=with_pods)

    def agrees() -> None:
        table = cache.nodes
        there = [p for row in table.row_of.values() for p in table.pods_on(row).values()]
        counted = [p for p in there if TOTALS[condition](p, pod)]
        count = len(counted)
        assert number.scalar(pod, NOW, 0) == (count, 0)
        assert some.scalar(pod, NOW, 0) == (count > 0, 0)
        assert every.scalar(pod, NOW, 0) == (count == len(there), 0)
        assert set(values(number, pod)) <= {count}
        assert total.scalar(pod, NOW, 0) == (sum(p.priority - 1 for p in counted), 0)
        assert set(values(total, pod)) <= {sum(p.priority - 1 for p in counted)}
        memory = sum(2**63 - 1 if p.priority > 0 else p.requests.get("memory", 0) for p in counted)
        value, error = wide.scalar(pod, NOW, 0)
        assert (value, error) == (memory, 0) if memory < 2**63 else error

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


def test_a_node_that_changes_its_domain_takes_its_pods_along() -> None:
    """The pods of a node whose label changed went on to count in the domain it had left."""
    cache, pod = crowd(6), PodInfo.of(make_pod("p", namespace="a"))
    text = "domain('zone').pods.filter(p, p.namespace == pod.namespace).size()"
    bound = bound_to(text, cache, "any")
    assert values(bound, pod) == [2, 2, 1]
    cache.update_node(make_node("n0", labels={"zone": "z1"}))
    assert values(bound, pod) == [2, 1, 2]


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
        "node.pods.map(p, p.requests['memory'].units()).sum() > 0",
    ],
)
def test_what_cannot_be_counted_ahead(text: str) -> None:
    """What reads the node or another list, or may fail as sums beyond int64 do, stays a loop."""
    bound = bound_to(text, crowd(6), "any")
    assert "rt.counts.of" not in bound.expression.program.text
    assert_fresh(bound, crowd(6), PodInfo.of(make_pod("p")))


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
@settings(max_examples=scaled(30))
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
def test_kept_columns_of_generated_rules_equal_fresh_ones(
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
    columns = [(rep, None if rep == "i" else 100.0)]
    moving = incremental.ColumnGroup(columns, lambda _row: (number,), lambda _rows, _n: (7,))
    still = incremental.ColumnGroup([], lambda _row: (), _nothing)
    kept = incremental.MaterializedColumns(cache.nodes, still, moving, moves=True)
    before = kept.arrays()
    assert before is not None
    assert before[0].tolist() == [7]
    cache.add_pod(PodInfo.of(make_pod("p", node_name="n")))
    after = kept.arrays()
    assert (None if after is None else after[0].tolist()) == (None if shown is None else [shown])


def _nothing(_rows: slice, _n: int) -> tuple[()]:
    return ()


@pytest.mark.parametrize("count", [1, thresholds.FEW_ROWS, thresholds.FEW_ROWS + 1])
def test_all_changed_rows_are_up_to_date_however_many(count: int) -> None:
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
