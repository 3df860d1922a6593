"""Equivalence classes of nodes: an expression runs once for rows that it cannot distinguish.

Where an expression reads nothing of a node but columns, two rows with equal values there are
alike. In a cluster of a few kinds of nodes thousands of rows are a few dozens of answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeView
from policy_sched.framework import ByRow
from policy_sched.language.ir import Reads, field_of_column

T = TypeVar("T")
Rows = npt.NDArray[np.intp]

#: For fewer rows the comparison costs more than the answers.
FEW: Final = 16
#: Odd, so that no bit of a value is lost; the sums are only a guess, which is checked.
_FACTOR: Final = np.int64(-7046029254386353131)


def each(table: NodeView, reads: Reads, rows: Rows, answer: Callable[[int], T]) -> ByRow[T]:
    """Return ``answer`` of each row, called once per class of rows with equal reads."""
    if rows.size < FEW or not reads.columns_only:
        return ByRow([answer(row) for row in rows.tolist()], np.arange(rows.size))
    known = -1
    found: list[T] = []
    inverse = np.zeros(0, np.intp)
    while known != len(table.materialised):  # an answer may be the first to read a column
        known = len(table.materialised)
        first, inverse = _groups(_values(table, reads, rows))
        found = [answer(row) for row in rows[first].tolist()]
    return ByRow(found, inverse)


def _values(table: NodeView, reads: Reads, rows: Rows) -> npt.NDArray[np.int64]:
    """Return what columns that may be read hold, shape (columns, rows)."""
    columns = [
        column.values[rows]
        for key, column in table.materialised.items()
        if field_of_column(key) in reads.node
    ]
    return np.array(columns, np.int64).reshape(len(columns), rows.size)


def _groups(values: npt.NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return a place of each kind of columns of ``values``, and the kind's number by place."""
    sums = np.zeros(values.shape[1], np.int64)
    for line in values:
        sums = (sums ^ line) * _FACTOR
        sums ^= sums >> 29
    _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
    if not (values == values[:, first[inverse]]).all():
        _, first, inverse = np.unique(values, axis=1, return_index=True, return_inverse=True)
    return first, inverse
