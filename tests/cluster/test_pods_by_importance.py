"""PodOrder: what it keeps up to date is what sorting from scratch gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster import pods_by_importance
from policy_sched.cluster.cache import Cache
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

KINDS = ["add", "change", "remove", "node", "leave", "look"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=40)


@settings(max_examples=scaled(100), deadline=None)
@given(
    STEPS,
    st.sampled_from([0, 1, thresholds.LOOP_ROWS]),
    st.sampled_from([0, 100, pods_by_importance.KEPT_BYTES]),
)
def test_the_kept_order_is_the_sorted_one(
    steps: list[tuple[str, int]], few: int, most: int
) -> None:
    """Whatever comes and goes, each column holds the node's pods, the highest priority first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "LOOP_ROWS", few)
        patch.setattr(pods_by_importance, "KEPT_BYTES", most)
        assert_kept(steps)


def assert_kept(steps: list[tuple[str, int]]) -> None:
    cache = Cache()
    cache.add_node(make_node("n0"))
    priority = cache.pods.column(("priority",))

    def keys(rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], ...]:
        return -priority.values[rows], rows.astype(np.int64)

    order = pods_by_importance.PodOrder(cache, keys)
    pods: list[PodInfo] = []
    for number, (step, index) in enumerate([*steps, ("look", 0)]):
        if step == "add":
            info = PodInfo.of(make_pod(f"p{number}", priority=index % 3, node_name=f"n{index}"))
            cache.add_pod(info)
            pods.append(info)
        elif step == "change" and pods:
            old = pods[index % len(pods)]
            info = PodInfo.of(
                make_pod(old.name, priority=number % 3, node_name=old.node_name, uid=old.uid)
            )
            cache.update_pod(info)
            pods[index % len(pods)] = info
        elif step == "remove" and pods:
            cache.remove_pod(pods.pop(index % len(pods)))
        elif step == "node":
            cache.add_node(make_node(f"n{index}"))
        elif step == "leave" and f"n{index}" in cache.nodes.row_of:
            cache.remove_node(make_node(f"n{index}"))
        elif step == "look":
            rows = np.array(sorted(cache.nodes.row_of.values()), np.intp)
            assert_sorted(cache, order.of(rows).rows, rows)
            assert_read(cache, order)


def assert_read(cache: Cache, order: pods_by_importance.PodOrder) -> None:
    """What is read of the pods by node is what the pod table has, and 0 where there is no pod."""
    every = order.every()
    some = np.arange(0, cache.nodes.n, 2)
    for pods in (every, order.at(some), order.of(some), every.at(some)):
        for key in (("priority",), ("name",)):
            expected = cache.pods.lookup(key).values[pods.rows]
            np.testing.assert_array_equal(pods.of(key), np.where(pods.there, expected, 0))
        doubled = pods.derived("doubled", None, lambda rows: 2 * rows + 1)
        np.testing.assert_array_equal(doubled, np.where(pods.there, 2 * pods.rows + 1, 0))


def assert_sorted(cache: Cache, block: NDArray[np.intp], rows: NDArray[np.intp]) -> None:
    for place, row in enumerate(rows.tolist()):
        column = [i for i in block[:, place].tolist() if i >= 0]
        assert block[len(column) :, place].tolist() == [-1] * (block.shape[0] - len(column))
        infos = [cache.pods.infos[i] for i in column]
        assert {info.uid for info in infos if info} == set(cache.nodes.pods_on(row))
        assert [(-i.priority, r) for i, r in zip(infos, column, strict=True) if i] == sorted(
            (-i.priority, r) for i, r in zip(infos, column, strict=True) if i
        )
