"""Totals: the total score of each row, which rows are feasible, and which have the highest.

Theory of operation. Nothing else writes totals. `add` takes by how much the scores of rows rose,
`put` the totals of rows that became feasible or infeasible; an infeasible row has total -1.

A pod that is bound changes the total of one row, and the next equal pod wants the best rows again.
The first few times they are searched. Totals that are read more often are grouped: for each value
the rows that have it, ascending. A changed row moves from one group to another: two binary searches
and two short moves of memory. Groups are dropped when many totals change at once, and made anew
after as many searches as before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import framework, thresholds
from policy_sched.framework.evaluate.views import FEASIBLE


class Totals(msgspec.Struct, eq=False):
    """The totals of the rows [0, n)."""

    values: framework.Scores
    """int64, shape (n,); to be read only."""
    _first: framework.Codes
    """0 for each row that is feasible."""
    _groups: dict[int, array[int]] = msgspec.field(default_factory=dict)
    """By value the rows that have it, ascending; a group may be empty. Empty: not grouped."""
    _order: list[int] = msgspec.field(default_factory=list)
    """A heap of the values of all groups, negated."""
    _searches: int = 0
    """How often rows were searched since groups were dropped."""

    def best(self) -> Sequence[int] | NDArray[np.intp]:
        """Return the rows with the highest total, ascending; they hold until a total changes."""
        groups, order = self._groups, self._order
        if groups:
            while not (rows := groups[-order[0]]):
                del groups[-heappop(order)]
            return rows
        total = self.values
        self._searches += 1
        if self._searches == thresholds.SEARCHES:
            self._group()
        best: NDArray[np.intp] = (total == total.item(total.argmax())).nonzero()[0]
        return best

    # Changes.

    def add(self, rows: Sequence[int], gains: Sequence[int], *, moved: bool = False) -> None:
        """Add to the totals of a few rows by how much their scores rose.

        ``moved``: they were opened or closed instead.
        """
        total, first, groups = self.values, self._first, self._groups
        for row, gain in zip(rows, gains, strict=True):
            if not gain or (first.item(row) != FEASIBLE and not moved):
                continue
            before = total.item(row)
            total[row] = now = before + gain
            if groups:
                left = groups[before]
                del left[bisect_left(left, row)]
                group = groups.get(now)
                if group is None:
                    groups[now] = array("i", (row,))
                    heappush(self._order, -now)
                else:
                    insort(group, row)

    def add_all(self, gain: framework.Scores) -> None:
        """Add to the totals of all rows by how much their scores rose; ``gain`` is used up."""
        if np.count_nonzero(self._first):
            gain[self._first != FEASIBLE] = 0
        self.values += gain
        self._forget()

    def add_some(self, rows: NDArray[np.intp], gain: framework.Scores) -> None:
        """Add to the totals of rows by how much their scores rose."""
        if rows.size <= thresholds.FEW_ROWS:
            self.add(rows.tolist(), gain.tolist())
        else:
            self.values[rows] += gain * (self._first[rows] == FEASIBLE)
            self._forget()

    def add_groups(
        self, grouped: framework.GroupedSums, rescored: framework.Rescored, weight: int
    ) -> None:
        """Add by how much the scores of groups of rows rose, and of rows that changed groups."""
        gains = rescored.gains
        if gains is not None:
            gain = np.array(gains, np.int64)
            gain *= weight
            self.add_all(gain.take(grouped.groups, mode="clip"))
        if rescored.moved:
            group_of, normalized = grouped.group_of, grouped.normalized
            rows, more = list[int](), list[int]()
            for row, before in rescored.moved:
                group = group_of[row]
                gained = normalized[group] - before
                rows.append(row)
                more.append((gained if gains is None else gained - gains[group]) * weight)
            self.add(rows, more)

    def put(self, rows: NDArray[np.intp], total: framework.Scores | int) -> None:
        """Write the totals of rows that became feasible, or CLOSED of those that no longer are."""
        if rows.size <= thresholds.FEW_ROWS:
            self.add(rows.tolist(), (total - self.values[rows]).tolist(), moved=True)
        else:
            self.values[rows] = total
            self._forget()

    # Groups of equal totals.

    def _forget(self) -> None:
        """Drop the groups: any total may be another now."""
        self._searches = 0
        if self._groups:
            self._groups, self._order = {}, []

    def _group(self) -> None:
        total = self.values
        rows = np.argsort(total, kind="stable").astype(np.int32)
        ordered = total[rows]
        starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        if starts.size >= thresholds.MOST_GROUPS:
            return
        for group in np.split(rows, starts):
            same = self._groups[total.item(group[0])] = array("i")
            same.frombytes(group.tobytes())
        self._order = [-value for value in self._groups]
        heapify(self._order)
