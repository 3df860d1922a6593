"""Equal rows: results for many rows at once equal those of each row."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster.cache import Cache
from policy_sched.language.diagnostics import Text
from policy_sched.language.ir.dependencies import Reads
from policy_sched.language.runtime.activation import Activation
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules import equivalence_classes
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.language.test_compile import bound, rule

WORDS = [
    # One column, several, a column that nothing read before, a map of the pod's resources.
    '["full by " + string(node.podCount)]',
    '(node.unschedulable ? ["closed"] : []) + [node.labels[?"rack"].orValue("none")]',
    '[string(node.free["cpu"].value()), string(node.allocatable["example.com/late"].value())]',
    'pod.requests.names().filter(r, pod.requests[r] > node.free[r]).map(r, "lacks " + r)',
    # The node's own name, its object, its pods: nothing is shared.
    '["not " + node.name]',
    'node.taints.map(t, t.key)',
    '[node.labels.all(k, k != "rack") ? "bare" : "racked"]',
    # A loop in a loop, an index, an error on some rows, numbers that differ from node to node.
    '["a", "b"].map(a, pod.requests.names().exists(r, pod.requests[r] > node.free[r]) ? a : "ok")',
    '["a", "b"].transformList(i, a, i < node.podCount ? a : "free")',
    '["cpu"].map(r, string(100 / (node.free[r].value() - 1)))',
    'pod.requests.names().map(r, string(node.free[r].value() + node.podCount))',
    '["a"].filter(a, node.taints.exists(t, t.key == a || node.unschedulable)).map(a, "taint " + a)',
    '[string(double(node.allocatable["cpu"].value()) / double(node.podCount))]',
]  # fmt: skip


def cluster(seed: int, size: int) -> Cache:
    """Return nodes of a few kinds, some of them with a pod."""
    rng, cache = Random(seed), Cache()
    for i in range(size):
        labels = rng.choice([{}, {"rack": "a"}, {"rack": "b"}])
        resources = rng.choice([{"cpu": "1"}, {"cpu": "2", "example.com/late": "3"}])
        taints = rng.choice([(), ({"key": "dedicated", "effect": "NoSchedule"},)])
        cache.add_node(
            make_node(
                f"n{i}",
                labels=labels,
                resources=resources,
                taints=taints,
                unschedulable=rng.random() < 0.3,
            )
        )
        if rng.random() < 0.3:
            cache.add_pod(PodInfo.of(make_pod(f"p{i}", cpu="500m", node_name=f"n{i}")))
    return cache


@settings(max_examples=scaled(10), deadline=None)
@given(st.integers(0, 2**16), st.integers(thresholds.FEW_ROWS, 60))
@pytest.mark.parametrize("words", WORDS)
def test_many_rows_get_the_messages_of_each_row(words: str, seed: int, size: int) -> None:
    """Reasons of all rows at once are those of each row by itself."""
    pod = PodInfo.of(make_pod("new", requests={"cpu": "1", "example.com/late": "1"}))
    policy = bound(cluster(seed, size), filter=rule("false", reasons=Text(words)))
    filters = policy.filters()
    rows = np.arange(size)
    codes = np.ones(size, np.int16)
    together = filters.explain(pod, Activation(), rows, codes)
    alone = [filters.explain(pod, Activation(), rows[i : i + 1], codes[:1])[0] for i in range(size)]
    assert list(together) == alone
    mask = np.random.default_rng(seed).random(size) < 0.5
    mask[seed % size] = True
    masked = filters.explain_masked(pod, Activation(), mask, codes * mask)
    if masked is not None:
        explained = [(row, one) for own, one in masked for row in np.flatnonzero(own).tolist()]
        expected = [(row, alone[row]) for row in np.flatnonzero(mask).tolist()]
        assert sorted(explained, key=lambda found: found[0]) == expected


def test_reasons_that_depend_on_few_conditions_are_few_whatever_the_amounts() -> None:
    """Nodes that all have other amounts are explained once for each list of reasons."""
    cache = Cache()
    for i in range(200):
        cache.add_node(make_node(f"n{i}", resources={"cpu": f"{i}m", "memory": f"{300 - i}Mi"}))
    pod = PodInfo.of(make_pod("new", requests={"cpu": "150m", "memory": "200Mi"}))
    words = 'pod.requests.names().filter(r, pod.requests[r] > node.free[r]).map(r, "lacks " + r)'
    filters = bound(cache, filter=rule("false", reasons=Text(words))).filters()
    found = filters.explain(pod, Activation(), np.arange(200), np.ones(200, np.int16))
    reasons = [one.reasons for one in found.distinct]
    assert sorted(reasons) == [("lacks cpu",), ("lacks cpu", "lacks memory"), ("lacks memory",)]


@settings(max_examples=scaled(100), deadline=None)
@given(st.data())
def test_rows_are_of_one_class_if_all_marks_are_equal(data: st.DataObject) -> None:
    """Marks of any kind tell the same rows apart as tuples of their values do."""
    n = data.draw(st.integers(1, 40))
    columns = [
        np.array(data.draw(st.lists(st.sampled_from(kind), min_size=n, max_size=n)))
        for kind in data.draw(
            st.lists(
                st.sampled_from([[True, False], [0, 1, -(2**62), 2**62], [0.5, -1.0]]), max_size=6
            )
        )
    ]
    rows = np.arange(n) * 2
    requested: list[int] = []

    def answer(row: int) -> int:
        requested.append(row)
        return row

    found = equivalence_classes.of_classes([True, columns[:2], *columns[2:]], rows, answer)
    keys = [tuple(column[place].item() for column in columns) for place in range(n)]
    assert [keys[row // 2] for row in found] == keys
    assert len(requested) == len(set(keys))


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), max_size=6), st.data())
def test_flagged_rows_are_grouped_by_flags(marks: list[list[bool]], data: st.DataObject) -> None:
    """Groups of flagged rows have the rows of which all marks are equal, each row once."""
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=6, max_size=6)))
    columns = [np.array(mark, np.bool_) for mark in marks]
    groups = equivalence_classes.masks_of_classes([True, columns[:2], *columns[2:]], mask)
    telling = [column for column in columns if 0 < np.count_nonzero(column) < 6]
    assert (groups is None) == (2 ** len(telling) > thresholds.FEW_ROWS)
    if groups is not None:
        keys = [{tuple(c[row] for c in columns) for row in np.flatnonzero(g)} for g in groups]
        assert all(len(key) <= 1 for key in keys)
        assert len({key for one in keys for key in one}) == sum(map(bool, keys))
        assert (np.sum(groups, axis=0, initial=0) == mask).all()


def test_one_row_per_class_is_evaluated() -> None:
    """If only columns are read, equal rows share one result; otherwise every row is evaluated."""
    cache = Cache()
    for i in range(40):
        cache.add_node(make_node(f"n{i}", unschedulable=i % 3 == 0))
    cache.nodes.column(("unschedulable",))
    requested: list[int] = []

    def answer(row: int) -> bool:
        requested.append(row)
        return row % 3 == 0

    reads, rows = Reads(node=frozenset({"unschedulable"})), np.arange(40)
    expected = [row % 3 == 0 for row in range(40)]
    assert list(equivalence_classes.each(cache.nodes, reads, rows, answer)) == expected
    assert sorted(requested) == [0, 1]
    requested.clear()
    wide = Reads(node=reads.node, columns_only=False)
    assert list(equivalence_classes.each(cache.nodes, wide, rows, answer)) == expected
    assert requested == list(range(40))
