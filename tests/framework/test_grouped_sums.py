"""GroupedSums: sums that follow pods and feasible rows equal those that are made anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.counts import Counts
from policy_sched.framework import Addend, CycleState, Feasible, Formula, GroupedSums
from policy_sched.testing import make_node
from tests.examples import scaled
from tests.finite import chooser

ROWS = 30
KEYS = ("zone", "host")


def normalized(raw: Sequence[int], groups: Iterable[int], lowest: int, highest: int) -> list[int]:
    """Scale by the highest."""
    return [raw[group] * 100 // (highest or 1) - lowest for group in groups]


def weights(rows: NDArray[np.intp]) -> Sequence[tuple[float, int]]:
    """Weigh by the number of feasible rows, as spreading does; a few more do not matter."""
    return [(log(rows.size // 10 + 2), 1)] * len(KEYS)


def nodes_of(missing: int) -> Cache:
    """Return nodes of three zones, each with a host name; one lacks both labels."""
    cache = Cache()
    for row in range(ROWS):
        labels = {} if row == missing else {"zone": f"z{row % 3}", "host": f"h{row // 2}"}
        cache.add_node(make_node(f"n{row}", labels=labels))
    return cache


def by_row(sums: GroupedSums, feasible: Feasible) -> list[tuple[int, int]]:
    """Return the raw and the normalised score of each feasible row."""
    groups = sums.groups[feasible.rows].tolist()
    return [(sums.raw[group], sums.normalized[group]) for group in groups]


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_updated_sums_are_those_made_anew(data: st.DataObject) -> None:
    """Pods come and go, and rows become feasible or infeasible; gains lead to the new scores."""
    choose = chooser(data.draw)
    domains = nodes_of(choose([-1, 5])).counts.domains
    counts, formula = Counts(), Formula(weights, normalized, choose([None, -1]), 0.5)

    def anew(feasible: Feasible) -> GroupedSums:
        addends = []
        for key in KEYS:
            domain = domains.of(key)
            present = None if formula.ignored is None else domain.present
            addends.append(Addend(domain, ((counts.by(domain), 1),), present))
        sums = GroupedSums.of(addends, formula, feasible)
        assert sums is not None, "there are few groups"
        return sums

    state, feasible = CycleState(), Feasible(np.arange(ROWS))
    sums = anew(feasible)
    for _ in range(30):
        before = dict(zip(feasible.rows.tolist(), by_row(sums, feasible), strict=True))
        groups = sums.groups.copy()
        rows = sorted({choose(range(ROWS)) for _ in range(choose([0, 1, 1, 2]))})
        for row in rows:
            counts.add(row, 1 if not counts.by_row.get(row) else choose([1, -1]))
        if choose([False, False, True]):
            closed = {choose(range(ROWS)) for _ in range(choose([1, 2, 10, 40]))}
            feasible = Feasible(np.array([r for r in range(ROWS) if r not in closed], np.intp))
        state.write(feasible)
        rescored = sums.update(state, rows)
        assert rescored is not None, "few rows have moved"
        assert by_row(sums, feasible) == by_row(anew(feasible), feasible)
        gains, moved = rescored.gains, dict(rescored.moved)
        for row, (_, now) in zip(feasible.rows.tolist(), by_row(sums, feasible), strict=True):
            if row in moved:
                assert row not in before or before[row][1] == moved[row]
            elif row in before:
                assert before[row][1] + (0 if gains is None else gains[int(groups[row])]) == now
