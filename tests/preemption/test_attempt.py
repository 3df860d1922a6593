"""Victims: the order in which possible victims are spared."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.attempt import Victims
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

#: What a place holds: no pod; one that may not be evicted; a victim; one that breaks a budget.
NONE, STAYS, VICTIM, BREAKS = range(4)
COLUMN = st.lists(st.sampled_from([STAYS, VICTIM, BREAKS]), max_size=5)


def block_of(columns: list[list[int]], depth: int) -> NDArray[np.int64]:
    padded = [column + [NONE] * (depth - len(column)) for column in columns]
    return np.array(padded, np.int64).reshape(len(columns), depth).T


def cache_with(pods: int) -> Cache:
    cache = Cache()
    cache.add_node(make_node("n"))
    for number in range(pods):
        cache.add_pod(PodInfo.of(make_pod(f"p{number}", priority=number, node_name="n")))
    return cache


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(COLUMN, min_size=1, max_size=6), st.booleans())
def test_victims_that_break_a_budget_are_spared_first(
    columns: list[list[int]], all_leave: bool
) -> None:
    """The others follow, both in the order of importance, in arrays and for one node."""
    if all_leave:
        columns = [[kind for kind in column if kind != STAYS] for column in columns]
    kinds = block_of(columns, max(map(len, columns)))
    rows = np.where(kinds == NONE, -1, np.arange(kinds.size).reshape(kinds.shape))
    pods = PodRows(cache_with(kinds.size).pods, rows)
    if (kinds == STAYS).any():
        pods = pods.holding(kinds > STAYS)
    breaking = kinds == BREAKS
    victims = Victims(np.arange(len(columns)), pods, breaking if breaking.any() else None)
    spared = victims.in_order_of_reprieve()
    picked = np.random.default_rng(0).random(spared.there.shape) < 0.5
    picked &= spared.there
    back = victims.in_order_of_importance(picked, spared)
    for place in range(len(columns)):
        lines = range(kinds.shape[0])
        expected = [line for line in lines if kinds[line, place] == BREAKS]
        expected += [line for line in lines if kinds[line, place] == VICTIM]
        assert [line for line, _ in victims.column(place)] == expected
        there = spared.there[:, place]
        assert spared.rows[there, place].tolist() == rows[expected, place].tolist()
        assert spared.of(("priority",))[there, place].tolist() == rows[expected, place].tolist()
        chosen = picked[there, place].tolist()
        lost = {line for line, flag in zip(expected, chosen, strict=True) if flag}
        assert set(np.flatnonzero(back[:, place]).tolist()) == lost
