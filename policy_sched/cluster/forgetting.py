"""Letting go of columns that nobody has any more, so that a table keeps what is read and no more.

Theory of operation. Pods name label keys, resources and images, and each becomes a column when it
is first asked for; in the life of a cluster they are without end. So from time to time the table
offers the columns that nobody has asked for since the last time. It gives up its own references;
a column that is there all the same is somebody's who keeps it, as compiled rules do, and the table
takes it back. Columns are numbered as they are made, and their versions begin with that number:
one that is made again is never taken for the one that was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from weakref import ref

from policy_sched.cluster.column import Column
from policy_sched.cluster.columns import Key

MOST: Final = 1024
"""Columns of a table from which on it looks for some to let go of."""
VERSIONS: Final = 1 << 40
"""Versions that a column may have before they could meet those of the next."""


class ColumnCollector:
    """Decides when it is time to look again, and which columns of a table may go."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        """Columns from which on it is worth while."""
        self._due = most
        self._made = 0

    def numbered(self, column: Column) -> Column:
        """Return a new column with versions that no other one had."""
        column.version = self._made * VERSIONS
        self._made += 1
        return column

    def due(self, columns: Collection[Key]) -> bool:
        """Tell whether there are so many columns that some should go."""
        return len(columns) >= self._due

    def idle(self, columns: Mapping[Key, Column], always: Collection[str]) -> set[Key]:
        """Return those that were not asked for since the last time; families ``always`` stay."""
        found = {k for k, column in columns.items() if not column.asked and k[0] not in always}
        for column in columns.values():
            column.asked = False
        return found

    def had(self, columns: dict[Key, Column], idle: Collection[Key]) -> list[Column]:
        """Take columns out to which the table refers nowhere else; return those that live on."""
        offered = [ref(columns.pop(key)) for key in idle]
        return [column for one in offered if (column := one()) is not None]

    def looked(self, columns: Collection[Key]) -> None:
        """The columns that are left have been told apart: next time when there are many more."""
        self._due = max(self.most, len(columns) + self.most // 2)
