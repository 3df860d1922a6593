"""Why rows were rejected, kept from one attempt to the next: words cost more than verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import NOTHING, Rejections, Status, StatusTable

Explained: TypeAlias = Iterable[tuple[NDArray[np.intp], Sequence[Status]]]
"""Groups of rows, shape (k,), with one status for each row."""


class Explanations:
    """The statuses of rejected rows [0, n); rows that changed are explained anew."""

    def __init__(self, n: int, table: StatusTable | None = None) -> None:
        self._n = n
        self._table = StatusTable() if table is None else table
        self._known: Rejections | None = None
        self._stale: set[int] = set()

    def clone(self, changed: Iterable[int]) -> Explanations:
        """Return what is known, but of rows that are explained in another way there."""
        clone = Explanations(self._n, self._table)
        clone._known = self._known
        if self._known is not None:
            clone._stale = self._stale.union(changed)
        return clone

    def forget(self, rows: NDArray[np.intp] | None = None) -> None:
        """Explain these rows anew, or all."""
        if rows is None:
            self._known = None
            self._stale.clear()
        elif self._known is not None:
            self._stale.update(rows.tolist())

    def of(self, explain: Callable[[NDArray[np.intp]], Explained]) -> Rejections:
        """Return the statuses; ``explain`` finds those of ascending rows."""
        if self._known is None:
            self._known = self._fill(np.zeros(self._n, np.intp), explain(np.arange(self._n)))
        elif self._stale:
            stale = np.array(sorted(self._stale), np.intp)
            numbers = self._known.numbers.copy()
            numbers[stale] = NOTHING
            self._known = self._fill(numbers, explain(stale))
        self._stale.clear()
        return self._known

    def _fill(self, numbers: NDArray[np.intp], explained: Explained) -> Rejections:
        for rows, statuses in explained:
            numbers[rows] = self._table.numbers(statuses)
        return Rejections(numbers, self._table)
