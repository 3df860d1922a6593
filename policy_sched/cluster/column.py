"""One column of a table, and the rows that all columns of a table share.

Theory of operation: arrays are longer than the table (capacity) and grow by doubling, so adding
a row costs O(1). Growing replaces the array of every column: whoever keeps a column reads
``values`` anew for each use. ``view`` is the same memory as a memoryview, which reads and writes
one number in a third of the time that an array takes; the tables write through it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.columns import Family, Key, Kind

Values: TypeAlias = npt.NDArray[Any]
"""A column's array; its dtype is the family's, which no type can say for a key made at run time."""

FIRST_CAPACITY = 16


class Column:
    """The values of one key for every row of a table.

    ``values`` is a one-dimensional array of the family's dtype as long as the table's capacity;
    slice it to the table's ``n``. Both ``values`` and ``view`` are replaced when the table grows.
    ``version`` rises when a value of a static column changes; dynamic columns leave it, and tell
    the journal.
    """

    __slots__ = ("family", "key", "static", "values", "version", "view")

    def __init__(self, key: Key, family: Family, capacity: int, fill: int = 0) -> None:
        self.key = key
        self.family = family
        self.static = family.kind is Kind.STATIC
        self.version = 0
        self.values: Values = np.full(capacity, fill, dtype=family.dtype)
        self.view = _view(self.values)

    def grow(self, capacity: int, fill: int = 0) -> None:
        """Move to an array of ``capacity`` elements; the new ones hold ``fill``."""
        values = np.full(capacity, fill, dtype=self.family.dtype)
        values[: len(self.values)] = self.values
        self.values = values
        self.view = _view(values)

    def put(self, row: int, value: int) -> bool:
        """Store a value of a static column, raise its version if it is new, say whether it is."""
        view = self.view
        if view[row] == value:
            return False
        view[row] = value
        self.version += 1
        return True


def _view(values: Values) -> memoryview[int]:
    return values.data


class Rows:
    """Hands out row numbers: freed ones first, last freed first."""

    __slots__ = ("_free", "capacity", "n")

    def __init__(self) -> None:
        self.n = 0
        """High-water mark: every row that ever was in use is below it."""
        self.capacity = FIRST_CAPACITY
        self._free: list[int] = []

    def take(self) -> int:
        """Return a free row. It may be ``capacity``: then the caller grows every column first."""
        if self._free:
            return self._free.pop()
        self.n += 1
        return self.n - 1

    def give_back(self, row: int) -> None:
        """Free a row for the next ``take``."""
        self._free.append(row)
