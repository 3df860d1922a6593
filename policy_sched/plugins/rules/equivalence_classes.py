"""Equivalence classes of nodes: an expression runs once for rows that it cannot distinguish.

Where an expression is a few conditions in words, two rows for which the same of them hold are
alike; the compiler finds the conditions. Elsewhere two rows are alike if they have equal values in
all columns that the expression may read. Thousands of rows are a few different results then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from policy_sched import thresholds
from policy_sched.cluster.tables import NodeView
from policy_sched.framework import ByRow
from policy_sched.language.ir import Reads, field_of_column

T = TypeVar("T")
Rows = npt.NDArray[np.intp]

#: Odd, so that no bit of a value is lost; the sums are only a guess, which is checked.
_FACTOR: Final = np.int64(-7046029254386353131)
#: Numbers below it, and it itself, are bytes.
_SMALL: Final = 255


def of_classes(
    marks: Sequence[object], rows: Rows, evaluate: Callable[[int], T], *, whole: bool = False
) -> ByRow[T]:
    """Return ``evaluate`` of each row, called once for rows that no mark tells apart.

    ``marks``: arrays with an element for each of the rows, single values, and lists of both.
    ``whole``: the arrays have an element for each row of the table.
    """
    numbers, bound = _numbers(marks)
    if not numbers.size:
        return ByRow([evaluate(int(rows[0]))], np.zeros(rows.size, np.intp))
    if whole:
        numbers = numbers[rows]
    counts = np.bincount(numbers, minlength=bound) if bound <= thresholds.TABLE else None
    kinds = None if counts is None else counts.nonzero()[0]
    if counts is None or kinds is None or kinds.size > thresholds.FEW_ROWS:
        _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        return ByRow([evaluate(row) for row in rows[first].tolist()], places)
    values = [evaluate(rows.item((numbers == kind).argmax())) for kind in kinds.tolist()]
    place = np.zeros(bound, np.uint8)
    place[kinds] = np.arange(kinds.size)
    return ByRow(values, place.take(numbers), counts[kinds].tolist())


def masks_of_classes(
    marks: Sequence[object], mask: npt.NDArray[np.bool_]
) -> list[npt.NDArray[np.bool_]] | None:
    """Return the flagged rows in groups of rows that no mark tells apart, as flags over all rows.

    ``marks`` as for `of_classes`, with an element for each row of the table. None if they are more
    than a few flags: numbers are faster then.
    """
    bits: npt.NDArray[Any] | None = None
    bound = 1
    for mark in _arrays(marks):
        if mark.dtype != np.bool_:
            return None
        if np.count_nonzero(mark) in (0, mark.size):
            continue  # all rows are alike
        own = mark.view(np.uint8)
        bits = own if bits is None else (bits << 1) | own
        bound *= 2
        if bound > thresholds.FEW_ROWS:
            return None
    if bits is None:
        return [mask]
    groups = [(bits == number) & mask for number in range(bound)]
    return [group for group in groups if np.count_nonzero(group)]


def _numbers(marks: Sequence[object]) -> tuple[npt.NDArray[Any], int]:
    """Return a number for each row, the same where all marks are equal, and a bound of them.

    No number at all if no mark is an array.
    """
    numbers: npt.NDArray[Any] = np.empty(0, np.uint8)
    bound = 1
    for mark in _arrays(marks):
        own, kinds = _number(mark)
        if bound > 1 and bound * kinds > thresholds.TABLE:
            _, numbers = np.unique(numbers, return_inverse=True)
            bound = int(numbers.max(initial=0)) + 1
        if bound * kinds > thresholds.TABLE:
            _, own = np.unique(own, return_inverse=True)
            kinds = int(own.max(initial=0)) + 1
        bound *= kinds
        dtype = np.dtype(np.uint8 if bound <= _SMALL else np.int64)
        own = own.astype(dtype, copy=False)
        if numbers.size:
            own = np.add(own, np.multiply(numbers, kinds, dtype=dtype))
        numbers = own
    return numbers, bound


def _arrays(marks: Sequence[object]) -> list[npt.NDArray[Any]]:
    """Return the arrays among the marks, in order; those of lists stand where the list does."""
    arrays: list[npt.NDArray[Any]] = []
    pending = [*reversed(marks)]
    while pending:
        mark = pending.pop()
        if isinstance(mark, list):
            pending += reversed(mark)
        elif isinstance(mark, np.ndarray) and mark.ndim:
            arrays.append(mark)
    return arrays


def _number(mark: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Return a mark as numbers from 0 on, and how many there may be."""
    if mark.dtype == np.bool_:
        return mark, 2
    if mark.dtype == np.float64:
        mark = mark.view(np.int64)
    if mark.dtype.kind == "i" and mark.size:
        least, most = int(mark.min()), int(mark.max())
        if most - least < thresholds.TABLE:
            return mark - least, most - least + 1
    _, numbers = np.unique(mark, return_inverse=True)
    return numbers, int(numbers.max(initial=0)) + 1


def each(table: NodeView, reads: Reads, rows: Rows, evaluate: Callable[[int], T]) -> ByRow[T]:
    """Return ``evaluate`` of each row, called once per class of rows with equal reads."""
    if rows.size < thresholds.FEW_ROWS or not reads.columns_only:
        return ByRow([evaluate(row) for row in rows.tolist()], np.arange(rows.size))
    known = -1
    values: list[T] = []
    inverse = np.zeros(0, np.intp)
    while known != len(table.materialised):  # an evaluation may be the first to read a column
        known = len(table.materialised)
        first, inverse = _groups(_values(table, reads, rows))
        values = [evaluate(row) for row in rows[first].tolist()]
    return ByRow(values, inverse)


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
