"""Results of a rule by row, kept for pods that are alike, where pods on the nodes change none.

Theory of operation. A rule that reads static fields of a node, and objects of inputs that are named
as the node, gives a row the same result until the node or one of these objects changes. The row has
another stamp then (`Journal.bare`), and its result is worked out again. So a pod that is bound
costs nothing, and a changed object its row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.lru import Lru
from policy_sched.model import PodInfo

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of the results of one rule, for all kinds of pods."""
_NEVER: Final = -(2**63)


class _Rows(msgspec.Struct, eq=False):
    """Results of pods that are alike, and the stamps of the rows that they are right for."""

    values: NDArray[Any]
    stamps: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.values.nbytes + self.stamps.nbytes


class KeptRows:
    """The results of one rule over the node table; ``like`` returns what pods have in common."""

    def __init__(
        self,
        table: NodeTable,
        like: Callable[[PodInfo], Hashable],
        dtype: type[np.integer[Any]],
        most: int = MOST_BYTES,
    ) -> None:
        self._table = table
        self._like = like
        self._dtype = dtype
        self._kept: Lru[Hashable, _Rows] = Lru(most, lambda rows: rows.nbytes)
        self._latest: tuple[PodInfo | None, _Rows] = (None, self._without_any(0))

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return sum(rows.nbytes for rows in self._kept.entries.values())

    def of_rows(
        self,
        pod: PodInfo,
        rows: NDArray[np.intp] | None,
        compute: Callable[[NDArray[np.intp] | None], NDArray[Any] | None],
    ) -> NDArray[Any]:
        """Return the results of rows, None for all, as an array of the caller's own.

        ``compute`` returns them for those that are not known; None where they are all 0.
        """
        n = self._table.n
        kept, stamps = self._rows(pod, n), np.array(self._table.journal.bare)[:n]
        if rows is None:
            changed = (kept.stamps[:n] != stamps).nonzero()[0]
        else:
            changed = rows[kept.stamps[rows] != stamps[rows]]
        if changed.size:
            values = compute(None if changed.size == n else changed)
            kept.values[changed] = 0 if values is None else values
            kept.stamps[changed] = stamps[changed]
        return kept.values[:n].copy() if rows is None else kept.values[rows]

    def of_row(self, pod: PodInfo, row: int, compute: Callable[[], int]) -> int:
        """Return the result of one row."""
        kept, stamp = self._rows(pod, row + 1), self._table.journal.bare[row]
        if kept.stamps.item(row) == stamp:
            value: int = kept.values.item(row)
            return value
        value = compute()
        kept.values[row], kept.stamps[row] = value, stamp
        return value

    def _rows(self, pod: PodInfo, n: int) -> _Rows:
        """Return what is kept for pods like this one, of at least ``n`` rows."""
        latest, kept = self._latest
        if latest is pod and kept.stamps.size >= n:  # for speed: each row asks again
            return kept
        key = self._like(pod)
        before = self._kept.get(key)
        if before is None or before.stamps.size < n:
            before = self._without_any(max(n, self._table.n))
            self._kept.put(key, before)
        self._latest = pod, before
        return before

    def _without_any(self, n: int) -> _Rows:
        return _Rows(np.zeros(n, self._dtype), np.full(n, _NEVER, np.int64))
