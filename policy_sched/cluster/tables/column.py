"""One column of a table, and which columns are given up.

Theory of operation: arrays are longer than the table (capacity) and grow by doubling, so adding
a row costs O(1). Growing replaces the array of every column: code that holds a column reads
``values`` again for each use. ``view`` is the same memory as a memoryview, which reads and writes
one number in a third of the time that an array takes; the tables write through it.

Pods name label keys, resources and images, and each becomes a column when it is first read; over
the life of a cluster their number is unbounded. So a table gives up the columns that were not
looked up since the last eviction. A column that was opened to be held (by a compiled rule or a
plugin) is ``held`` for good: their number is bounded by what policies name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables.schema import MAX_SUM, Family, Key, Kind

Values: TypeAlias = npt.NDArray[Any]
"""A column's array; its dtype is the family's, which no type can say for a key made at run time."""

Distinct: TypeAlias = tuple[list[int], npt.NDArray[np.intp]]
"""Values, each once, ascending; and for each element the position of its value among them."""

FIRST_CAPACITY = 16
MOST: Final = 1024
"""Number of columns from which on a table gives up idle ones."""
VERSIONS: Final = 1 << 40
"""Versions that a column may have before they could meet those of the next."""
NO_VERSION: Final = -1
"""The version of a column of zeros; no other column has it."""


class Column:
    """The values of one key for every row of a table.

    ``values`` is a one-dimensional array of the family's dtype as long as the table's capacity;
    slice it to the table's ``n``. Both ``values`` and ``view`` are replaced when the table grows.
    """

    __slots__ = (
        "family",
        "held",
        "key",
        "referenced",
        "shared",
        "static",
        "values",
        "version",
        "view",
    )

    def __init__(self, key: Key, family: Family, capacity: int, fill: int = 0) -> None:
        self.key = key
        self.family = family
        self.static = family.kind is Kind.STATIC
        self.shared = self.static or family.name == "input"
        """Whether no pod changes it, so that an overlay needs no copy."""
        self.version = 0
        """Rises when a value of a static column changes; dynamic ones append to the journal."""
        self.referenced = True
        """Whether it was looked up since the last eviction."""
        self.held = False
        """Whether it is never given up."""
        self.values: Values = np.full(capacity, fill, dtype=family.dtype)
        self.view = _view(self.values)

    def grow(self, capacity: int, fill: int = 0) -> None:
        """Move to an array of ``capacity`` elements; the new ones hold ``fill``."""
        values = np.full(capacity, fill, dtype=self.family.dtype)
        values[: len(self.values)] = self.values
        self.values = values
        self.view = _view(values)

    def put(self, row: int, value: int) -> bool:
        """Store a value of a static column, raise its version and return True if it is new."""
        view = self.view
        if view[row] == value:
            return False
        view[row] = value
        self.version += 1
        return True


def sum_of(amounts: Values) -> int:
    """Return the sum of many amounts, no further from zero than MAX_SUM."""
    if abs(np.add.reduce(amounts, dtype=np.float64)) < MAX_SUM:
        return int(np.add.reduce(amounts))
    total: int = sum(amounts.tolist())
    return min(max(total, -MAX_SUM), MAX_SUM)


def distinct(values: Values) -> Distinct:
    """Return the distinct values, none negative, in ascending order, and where each element is."""
    top = int(values.max()) + 1 if len(values) else 0
    if top > 8 * len(values) + 4096:
        present, positions = np.unique(values, return_inverse=True)
        return present.tolist(), positions
    seen = np.zeros(top, dtype=np.bool_)
    seen[values] = True
    present = np.flatnonzero(seen)
    position_of = np.empty(top, dtype=np.intp)
    position_of[present] = np.arange(len(present))
    return present.tolist(), position_of.take(values)


def _view(values: Values) -> memoryview[int]:
    return values.data


class Eviction:
    """Decides when columns are given up, and which.

    Columns are numbered as they are created, and their versions begin with that number, so a
    column that is created again never has a version of the earlier one.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        """Number of columns from which on an eviction is worthwhile."""
        self._due = most
        self.made = 0
        """Number of columns that were ever made."""

    def numbered(self, column: Column) -> Column:
        """Return a new column with versions that no other one had."""
        column.version = self.made * VERSIONS
        self.made += 1
        return column

    def due(self, columns: Collection[Key]) -> bool:
        """Return whether there are enough columns for an eviction."""
        return len(columns) >= self._due

    def idle(self, columns: Mapping[Key, Column], always: Collection[str]) -> set[Key]:
        """Return the columns to give up; families ``always`` stay. A new round begins."""
        idle_keys = {
            key
            for key, column in columns.items()
            if not (column.referenced or column.held or key[0] in always)
        }
        for column in columns.values():
            column.referenced = False
        return idle_keys

    def ended(self, columns: Collection[Key]) -> None:
        """Set the number of columns at which the next eviction is due."""
        self._due = max(self.most, len(columns) + self.most // 2)
