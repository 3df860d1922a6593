"""Rejections: why each of many rows was rejected, as one array of numbers and a table of statuses.

Thousands of nodes say no for a handful of reasons. Counting them, or finding the rows with one
kind of status, is then an operation on an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework.status import Code, Status

#: Number of a row without a status.
NOTHING: Final = 0


class StatusTable:
    """Numbers of statuses, from 1; equal statuses have one number. It only grows."""

    __slots__ = ("_numbers", "statuses")

    def __init__(self) -> None:
        self._numbers: dict[Status, int] = {}
        self.statuses: list[Status] = [Status()]

    def number(self, status: Status) -> int:
        """Return the number of a status, a new one if it was never seen."""
        found = self._numbers.get(status)
        if found is None:
            found = self._numbers[status] = len(self.statuses)
            self.statuses.append(status)
        return found

    def numbers(self, statuses: Sequence[Status]) -> list[int]:
        """Return the numbers of many statuses, of which most are the same objects."""
        known: dict[int, int] = {}
        found = []
        for status in statuses:
            number = known.get(id(status))
            if number is None:
                number = known[id(status)] = self.number(status)
            found.append(number)
        return found


class Rejections(Mapping[int, Status]):
    """Statuses by row, ascending. ``numbers``: by row of the node table, not to be changed."""

    __slots__ = ("_statuses", "_tally", "numbers")

    def __init__(self, numbers: NDArray[np.intp], table: StatusTable) -> None:
        self.numbers = numbers
        self._statuses = table.statuses
        self._tally: dict[Status, int] | None = None

    def __getitem__(self, row: int) -> Status:
        number = self.numbers.item(row) if 0 <= row < self.numbers.size else NOTHING
        if number == NOTHING:
            raise KeyError(row)
        return self._statuses[number]

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.numbers).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.numbers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # equal to dictionaries, which have none

    def tally(self) -> Mapping[Status, int]:
        """Return how many rows have each status."""
        if self._tally is None:
            counts = np.bincount(self.numbers)
            counts[NOTHING] = 0
            self._tally = {self._statuses[i]: int(counts[i]) for i in np.flatnonzero(counts)}
        return self._tally

    def rows_with(self, code: Code) -> NDArray[np.intp]:
        """Return the rows whose status has this code, ascending, shape (k,)."""
        has = np.array([status.code is code for status in self._statuses])
        has[NOTHING] = False
        return np.flatnonzero(has[self.numbers])


def tally(statuses: Mapping[int, Status]) -> Mapping[Status, int]:
    """Return how many rows have each status."""
    return statuses.tally() if isinstance(statuses, Rejections) else Counter(statuses.values())


def rows_with(statuses: Mapping[int, Status], code: Code) -> NDArray[np.intp]:
    """Return the rows whose status has this code, ascending, shape (k,)."""
    if isinstance(statuses, Rejections):
        return statuses.rows_with(code)
    return np.array(sorted(row for row, s in statuses.items() if s.code is code), np.intp)
