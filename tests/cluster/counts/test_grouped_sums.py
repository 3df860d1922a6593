"""GroupedSums: sums that follow pods and feasible rows equal those that are made anew."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.counts import Addend, Counts, GroupedSums
from policy_sched.testing import make_node
from tests.examples import scaled
from tests.finite import chooser

ROWS = 16
KEYS = ("zone", "host")


class Spread:
    """A formula of which the weights follow the feasible rows, as those of spreading do."""

    def __init__(self, ignored: int | None) -> None:
        self.ignored = ignored

    def weights(self, rows: NDArray[np.intp]) -> Sequence[tuple[float, int]]:
        """Weigh by the number of feasible rows."""
        return [(log(rows.size + 2), 1)] * len(KEYS)

    def rounded(self, total: float) -> int:
        """Round half up."""
        return int(total + 0.5)

    def normalized(self, scores: Sequence[int], lowest: int, highest: int) -> list[int]:
        """Scale by the highest."""
        return [
            0 if one == self.ignored else one * 100 // (highest or 1) - lowest for one in scores
        ]


def nodes_of(missing: int) -> Cache:
    """Return nodes of three zones, each with a host name; one lacks both labels."""
    cache = Cache()
    for row in range(ROWS):
        labels = {} if row == missing else {"zone": f"z{row % 3}", "host": f"h{row // 2}"}
        cache.add_node(make_node(f"n{row}", labels=labels))
    return cache


def by_row(sums: GroupedSums, feasible: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the raw and the normalised score of each feasible row."""
    return [(sums.raw[group], sums.normalized[group]) for group in sums.groups[feasible].tolist()]


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_updated_sums_are_those_made_anew(data: st.DataObject) -> None:
    """Pods come and go, and rows become feasible or infeasible; gains lead to the new scores."""
    choose = chooser(data.draw)
    domains = nodes_of(choose([-1, 5])).counts.domains
    counts, formula = Counts(), Spread(choose([None, -1]))

    def anew(feasible: NDArray[np.intp]) -> GroupedSums:
        addends = []
        for key in KEYS:
            domain = domains.of(key)
            present = None if formula.ignored is None else domain.present
            addends.append(Addend(domain, ((counts.by(domain), 1),), present))
        sums = GroupedSums.of(addends, formula, feasible)
        assert sums is not None, "there are few groups"
        return sums

    feasible = np.arange(ROWS)
    sums = anew(feasible)
    for _ in range(data.draw(st.integers(1, 12))):
        before = dict(zip(feasible.tolist(), by_row(sums, feasible), strict=True))
        groups = sums.groups.copy()
        rows = sorted({choose(range(ROWS)) for _ in range(choose([0, 1, 1, 2]))})
        for row in rows:
            counts.add(row, 1 if not counts.by_row.get(row) else choose([1, -1]))
        if choose([False, False, True]):
            closed = {choose(range(ROWS)), choose(range(ROWS))}
            feasible = np.array([row for row in range(ROWS) if row not in closed], np.intp)
        gained = sums.update(rows, feasible)
        assert gained is not None, "few rows have moved"
        assert by_row(sums, feasible) == by_row(anew(feasible), feasible)
        gains, moved = gained[0], dict(gained[1])
        for row, (_, now) in zip(feasible.tolist(), by_row(sums, feasible), strict=True):
            if row in before:
                group = 0 if gains is None else gains[int(groups[row])]
                assert before[row][1] + moved.get(row, group) == now
