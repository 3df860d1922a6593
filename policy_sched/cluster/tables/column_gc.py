"""Eviction of idle columns, so that a table keeps only the columns that are read.

Theory of operation. Pods name label keys, resources and images, and each becomes a column when it
is first read; over the life of a cluster their number is unbounded. So from time to time the table
drops its references to the columns that were not read since the last collection. A column that is
still alive then is held by a compiled rule, and the table adds it again. Columns are numbered as
they are created, and their versions begin with that number, so a column that is created again never
has a version of the earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from weakref import ref

from policy_sched.cluster.tables.column import Column
from policy_sched.cluster.tables.schema import Key

MOST: Final = 1024
"""Number of columns from which on a table collects idle ones."""
VERSIONS: Final = 1 << 40
"""Versions that a column may have before they could meet those of the next."""


class ColumnCollector:
    """Decides when to collect, and which columns of a table are idle."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        """Number of columns from which on collecting is worthwhile."""
        self._due = most
        self._made = 0

    def numbered(self, column: Column) -> Column:
        """Return a new column with versions that no other one had."""
        column.version = self._made * VERSIONS
        self._made += 1
        return column

    def due(self, columns: Collection[Key]) -> bool:
        """Return whether there are enough columns to collect."""
        return len(columns) >= self._due

    def idle(self, columns: Mapping[Key, Column], always: Collection[str]) -> set[Key]:
        """Return the columns not read since the last collection; families ``always`` stay."""
        found = {k for k, column in columns.items() if not column.asked and k[0] not in always}
        for column in columns.values():
            column.asked = False
        return found

    def had(self, columns: dict[Key, Column], idle: Collection[Key]) -> list[Column]:
        """Drop columns that the table refers to nowhere else; return those still referenced."""
        offered = [ref(columns.pop(key)) for key in idle]
        return [column for one in offered if (column := one()) is not None]

    def looked(self, columns: Collection[Key]) -> None:
        """Set the size at which the next collection is due."""
        self._due = max(self.most, len(columns) + self.most // 2)
