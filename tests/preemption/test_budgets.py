"""Disruption budgets: the pods they cover, and the first victim that violates them."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.listers import ApiObjects
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.model.cluster_objects import PodDisruptionBudget
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.budgets import Budgets, running_count
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

PODS = [
    {"labels": {"app": "a"}},
    {"labels": {"app": "a", "tier": "x"}},
    {"labels": {"app": "b"}},
    {"labels": {}},
    {"labels": {"app": "a"}, "namespace": "other"},
]


def budget(
    selector: object, allowed: int = 0, disrupted: tuple[str, ...] = ()
) -> PodDisruptionBudget:
    value = {
        "metadata": {"name": f"b{id(selector)}", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(value, PodDisruptionBudget)


def violating(*budgets: object) -> list[int]:
    """Return the indexes of the pods, all on one node, that would violate a budget."""
    cache = Cache()
    cache.add_node(make_node("n"))
    for number, pod in enumerate(PODS):
        cache.add_pod(PodInfo.of(make_pod(f"p{number}", node_name="n", **pod)))
    victims = PodRows(cache.pods, np.arange(len(PODS)).reshape(-1, 1))
    kept = Budgets(ApiObjects(budgets), cache.pods)
    found = kept.violating(victims)
    indexes = [] if found is None else np.flatnonzero(found[:, 0]).tolist()
    on_node = kept.violating_on(cache.pods.infos)
    assert [index for index, breaks in enumerate(on_node) if breaks] == indexes
    return indexes


def expression(operator: str, *values: str, key: str = "app") -> object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({"matchLabels": {"app": "a"}}, [0, 1]),
        ({"matchLabels": {"app": "a", "tier": "x"}}, [1]),
        (expression("In", "a", "b"), [0, 1, 2]),
        (expression("NotIn", "a"), [2]),
        (expression("Exists"), [0, 1, 2]),
        (expression("DoesNotExist", key="tier"), [0, 2]),
        ({}, []),
        (None, []),
        (expression("Near"), []),
    ],
)
def test_a_budget_covers_what_its_selector_selects(selector: object, covered: list[int]) -> None:
    """In its namespace, labelled pods only; an empty or broken selector covers nothing."""
    assert violating(budget(selector)) == covered


def test_the_most_important_pods_use_the_budget_up() -> None:
    """With one disruption allowed the second victim violates it."""
    assert violating(budget({"matchLabels": {"app": "a"}}, allowed=1)) == [1]
    assert violating(budget({"matchLabels": {"app": "a"}}, allowed=2)) == []


def test_pods_that_are_going_already_do_not_count() -> None:
    """A disrupted pod neither violates the budget nor uses it up."""
    selector = {"matchLabels": {"app": "a"}}
    assert violating(budget(selector, disrupted=("p0",))) == [1]
    assert violating(budget(selector, allowed=1, disrupted=("p0", "nobody"))) == []


def test_one_broken_budget_is_enough() -> None:
    """A pod of several budgets violates any of them."""
    spare = budget({"matchLabels": {"app": "a"}}, allowed=9)
    assert violating(spare, budget({"matchLabels": {"tier": "x"}})) == [1]


def test_a_running_count_goes_down_each_column() -> None:
    """It equals numpy's sum along the first axis, for no lines and many."""
    for shape in [(0, 3), (1, 3), (5, 4), (3, 9), (300, 301)]:
        flags = np.random.default_rng(1).random(shape) < 0.5
        np.testing.assert_array_equal(running_count(flags), np.cumsum(flags, axis=0))


SELECTORS = [
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "a", "tier": "x"}},
    expression("In", "a", "b"),
    expression("NotIn", "a"),
    expression("Exists", key="tier"),
    expression("DoesNotExist", key="tier"),
]


@settings(max_examples=scaled(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 14))
def test_many_budgets_and_nodes_are_as_one_node_after_the_other(seed: int, count: int) -> None:
    """Of many budgets, on few nodes and on many, the pods that break one are the same."""
    rng = Random(seed)
    pods = [rng.choice(PODS) for _ in range(30)]
    cache = Cache()
    cache.add_node(make_node("n"))
    for number, pod in enumerate(pods):
        cache.add_pod(PodInfo.of(make_pod(f"p{number}", node_name="n", **pod)))
    found = [
        budget(rng.choice(SELECTORS), rng.randrange(4), (f"p{rng.randrange(30)}",))
        for _ in range(count)
    ]
    for number, one in enumerate(found):
        one.metadata.name = f"b{number}"
    budgets = Budgets(ApiObjects(found), cache.pods)
    nodes = rng.choice([1, 6])
    rows = np.array(rng.sample(range(30), 30)).reshape(5, 6)[:, :nodes]
    rows = np.where(np.arange(5)[:, np.newaxis] < rng.randrange(1, 6), rows, -1)
    breaking = budgets.violating(PodRows(cache.pods, rows))
    for place in range(nodes):
        column = [cache.pods.infos[row] for row in rows[:, place].tolist() if row >= 0]
        flags = [] if breaking is None else breaking[: len(column), place].tolist()
        assert (flags or [False] * len(column)) == budgets.violating_on(column)
