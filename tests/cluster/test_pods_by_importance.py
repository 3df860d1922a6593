"""PodOrder: what it keeps up to date is what sorting from scratch gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.pods_by_importance import PodOrder
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "node", "leave", "look"]), st.integers(0, 5)),
    max_size=40,
)


@settings(max_examples=scaled(100), deadline=None)
@given(STEPS)
def test_the_kept_order_is_the_sorted_one(steps: list[tuple[str, int]]) -> None:
    """Whatever comes and goes, each column holds the node's pods, the highest priority first."""
    cache = Cache()
    cache.add_node(make_node("n0"))
    priority = cache.pods.column(("priority",))

    def keys(rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], ...]:
        return -priority.values[rows], rows.astype(np.int64)

    order = PodOrder(cache, keys)
    pods: list[PodInfo] = []
    for number, (step, index) in enumerate([*steps, ("look", 0)]):
        if step == "add":
            info = PodInfo.of(make_pod(f"p{number}", priority=index % 3, node_name=f"n{index}"))
            cache.add_pod(info)
            pods.append(info)
        elif step == "remove" and pods:
            cache.remove_pod(pods.pop(index % len(pods)))
        elif step == "node":
            cache.add_node(make_node(f"n{index}"))
        elif step == "leave" and f"n{index}" in cache.nodes.row_of:
            cache.remove_node(make_node(f"n{index}"))
        elif step == "look":
            rows = np.array(sorted(cache.nodes.row_of.values()), np.intp)
            assert_sorted(cache, order.of(rows).rows, rows)


def assert_sorted(cache: Cache, block: NDArray[np.intp], rows: NDArray[np.intp]) -> None:
    for place, row in enumerate(rows.tolist()):
        column = [i for i in block[:, place].tolist() if i >= 0]
        assert block[len(column) :, place].tolist() == [-1] * (block.shape[0] - len(column))
        infos = [cache.pods.infos[i] for i in column]
        assert {info.uid for info in infos if info} == set(cache.nodes.pods_on(row))
        assert [(-i.priority, r) for i, r in zip(infos, column, strict=True) if i] == sorted(
            (-i.priority, r) for i, r in zip(infos, column, strict=True) if i
        )
