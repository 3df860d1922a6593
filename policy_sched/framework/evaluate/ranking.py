"""Ranking: the rows with the highest total, without a look at all rows for each pod.

Theory of operation. A pod that is bound changes the total of one row, and the next equal pod wants
the best rows again. The first few times they are searched. Totals that are read more often are
grouped: for each value the rows that have it, ascending. A changed row moves from one group to
another: two binary searches and two short moves of memory. Groups are dropped when many totals
change at once, and made anew after some more searches: after twice as many as before, if they were
read too few times to pay for themselves.

The code that writes totals calls `changed` for a few rows, or `forget` for all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import Scores

#: Making the groups costs about as much as so many searches.
SEARCHES: Final = 32
#: And the most searches before that, if groups were hardly read.
MOST_SEARCHES: Final = 1024
#: If more totals change at once the groups are dropped.
MANY: Final = 64
#: Totals with more values are searched each time.
MOST_GROUPS: Final = 4096


_NO_VALUES: Final[memoryview[int]] = memoryview(b"")


class Ranking(msgspec.Struct, eq=False):
    """The rows of a total, int64, shape (n,), by their total."""

    _total: Scores
    _searches: int = 0
    _groups: dict[int, array[int]] = msgspec.field(default_factory=dict)
    """By value the rows that have it, ascending; a group may be empty."""
    _order: list[int] = msgspec.field(default_factory=list)
    """A heap of the values of all groups, negated."""
    _values: memoryview[int] = _NO_VALUES
    """The totals by which rows are grouped."""
    _due: int = SEARCHES
    """After so many searches rows are grouped."""
    _reads: int = 0
    """How often the groups were read."""

    @property
    def nbytes(self) -> int:
        """Bytes that the groups take, at most."""
        return (array("i").itemsize + self._total.itemsize) * len(self._total)

    def best(self) -> Sequence[int] | NDArray[np.intp]:
        """Return the rows with the highest total, ascending; they hold until a total changes."""
        groups, order = self._groups, self._order
        if groups:
            self._reads += 1
            while not (rows := groups[-order[0]]):
                del groups[-heappop(order)]
            return rows
        total = self._total
        self._searches += 1
        if self._searches == self._due:
            self._group()
        found: NDArray[np.intp] = (total == total.item(total.argmax())).nonzero()[0]
        return found

    def changed(self, rows: Sequence[int] | None) -> None:
        """Note that the totals of these rows may be others now (None: of many)."""
        groups, values, total = self._groups, self._values, self._total
        if not groups:
            return
        if rows is None or len(rows) > MANY:
            self.forget()
            return
        for row in rows:
            before, now = values[row], total.item(row)
            if now == before:
                continue
            values[row] = now
            left = groups[before]
            del left[bisect_left(left, row)]
            group = groups.get(now)
            if group is None:
                groups[now] = array("i", (row,))
                heappush(self._order, -now)
            else:
                insort(group, row)

    def forget(self) -> None:
        """Note that any total may be another now."""
        if self._groups:
            self._groups, self._order = {}, []
            self._due = min(2 * self._due, MOST_SEARCHES) if self._reads < SEARCHES else SEARCHES
            self._reads = 0
        self._searches = 0

    def _group(self) -> None:
        total = self._total
        rows = np.argsort(total, kind="stable").astype(np.int32)
        found = total[rows]
        starts = np.flatnonzero(found[1:] != found[:-1]) + 1
        if starts.size >= MOST_GROUPS:
            return
        for group in np.split(rows, starts):
            kept = self._groups[total.item(group[0])] = array("i")
            kept.frombytes(group.tobytes())
        self._values = total.copy().data
        self._order = [-value for value in self._groups]
        heapify(self._order)
