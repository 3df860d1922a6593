"""Materialized columns: computed from a node table's columns, and updated row by row.

Theory of operation. A program's pod-invariant operations form two groups: those that read static
columns only, and those that change with pods. Before a full pass the journal names the rows that
changed, and the functions of one row compute them. At the start, when nodes are added or deleted,
and when many rows changed, the functions of all rows compute all; both give equal values. A mask
that holds for every live row, or for none, is returned as True or False; the absence of errors is
returned as 0. They belong to the node table; overlays compute every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import DYNAMIC, STRUCTURE, Changes, NodeTable
from policy_sched.language.values import LimitError

#: Beyond this many changed rows all rows are computed at once.
FEW_CHANGES: Final = 32

Values = npt.NDArray[Any]
_DTYPES: Final = {"b": np.bool_, "i": np.int64, "f": np.float64, "e": np.int16}


class MaterializedColumn:
    """One column. ``limit``: doubles of greater magnitude are no longer exact."""

    __slots__ = ("_live", "_set", "_values", "limit", "rep", "shown", "within")

    def __init__(self, rep: str, limit: float | None) -> None:
        self.rep = rep
        self.limit = limit
        self.within = True
        self.shown: Any = None
        """What readers get: a read-only array, or one value for all live rows."""
        self._values: Values = np.empty(0)
        self._live = 0
        self._set = 0

    def fill(self, values: Any, live: npt.NDArray[np.bool_]) -> None:
        """Set the values of all rows; ``live`` tells which of them count."""
        wide = isinstance(values, np.ndarray) and values.dtype.kind == "O"
        whole: Values = np.empty(len(live), np.object_ if wide else _DTYPES[self.rep])
        whole[:] = values
        self._values = whole
        if self.limit is not None:
            sizes = np.abs(whole)
            sizes = sizes[np.isfinite(sizes)]
            self.within = not sizes.size or bool(sizes.max() < self.limit)
        if self.rep in "be":
            self._live = int(np.count_nonzero(live))
            self._set = int(np.count_nonzero(whole[live]))
        self._show()

    def put(self, row: int, value: Any) -> None:
        """Change the value of a live row."""
        if self.rep in "be":
            before = self._set
            self._set += bool(value) - bool(self._values[row])
            self._values[row] = value
            if before != self._set:
                self._show()
            return
        self._values[row] = value
        if self.limit is not None and self.limit <= abs(value) < np.inf:
            self.within = False

    def _show(self) -> None:
        if self.rep == "b" and self._set == self._live:
            self.shown = True
        elif self.rep in "be" and not self._set:
            self.shown = False if self.rep == "b" else 0
        elif not isinstance(self.shown, np.ndarray) or self.shown.base is not self._values:
            self.shown = self._values.view()
            self.shown.flags.writeable = False


class ColumnGroup:
    """Materialized columns that change together, and the functions that compute them."""

    def __init__(
        self,
        columns: Sequence[MaterializedColumn],
        one_row: Callable[[int], Sequence[Any]],
        all_rows: Callable[[slice, int], Sequence[Any]],
    ) -> None:
        self.columns = columns
        self._one_row = one_row
        self._all_rows = all_rows

    def fill(self, live: npt.NDArray[np.bool_]) -> None:
        """Compute all rows."""
        n = len(live)
        with np.errstate(all="ignore"):
            for column, values in zip(self.columns, self._all_rows(slice(0, n), n), strict=True):
                column.fill(values, live)

    def put(self, row: int) -> None:
        """Compute one row."""
        for column, value in zip(self.columns, self._one_row(row), strict=True):
            column.put(row, value)


class MaterializedColumns:
    """The materialized columns of one program over one table."""

    def __init__(self, table: NodeTable, static: ColumnGroup, moving: ColumnGroup) -> None:
        self._table = table
        self._static = static
        self._moving = moving
        self._columns = [*static.columns, *moving.columns]
        self._moves = bool(moving.columns)
        self._version = -1
        self._n = -1
        self._shown: tuple[Any, ...] | None = None

    def arrays(self) -> tuple[Any, ...] | None:
        """Return the columns, static ones first, as read-only arrays.

        None if they cannot be used: a column left its limit.
        """
        journal = self._table.journal
        if self._moves:
            if self._version != journal.version:
                self._renew()
        elif self._version < journal.static_version:
            self._renew()
        return self._shown

    def _renew(self) -> None:
        """Update the columns; drop them if that takes too much work."""
        table = self._table
        journal = table.journal
        changes = journal.since(self._version) if self._n == table.n else None
        self._version, self._n = journal.version, table.n
        self._shown = None
        try:
            self._work_out(changes)
        except LimitError:
            self._n = -1

    def _work_out(self, changes: Changes | None) -> None:
        table = self._table
        if changes is None or changes.kind & STRUCTURE or len(changes.rows) > FEW_CHANGES:
            live = table.live.values[: table.n]
            if changes is None or changes.kind != DYNAMIC:
                self._static.fill(live)
            self._moving.fill(live)
        else:
            self._put(changes.rows, changes.kinds)
        within = all(column.within for column in self._columns)
        self._shown = tuple([column.shown for column in self._columns]) if within else None

    def _put(self, rows: list[int], kinds: list[int]) -> None:
        alive = self._table.live.view
        try:
            for row, kind in zip(rows, kinds, strict=True):
                if not alive[row]:
                    continue
                if kind != DYNAMIC and self._static.columns:
                    self._static.put(row)
                if self._moving.columns:
                    self._moving.put(row)
        except OverflowError:  # a sum that int64 arrays wrap and that a single row does not
            live = self._table.live.values[: self._n]
            self._static.fill(live)
            self._moving.fill(live)
