"""Why nothing fits: the statuses of nodes, and the sentence that kube-scheduler makes of them.

The statuses of thousands of nodes are few different ones: a row has the number of its status, and
a table has each status once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.framework.status import Code, Status

T = TypeVar("T")
U = TypeVar("U")

#: Number of a row without a status.
NOTHING: Final = 0


class ByRow(Sequence[T]):
    """A value for each of some rows: a few different ones, and which of them each row has.

    ``places``: integers, shape (k,), the position in ``distinct`` of each row's value.
    ``counts``: how many rows have each of the different values, if that is known already.
    """

    __slots__ = ("_counts", "distinct", "places")

    def __init__(
        self,
        distinct: Sequence[T],
        places: NDArray[np.integer[Any]],
        counts: list[int] | None = None,
    ) -> None:
        self.distinct = distinct
        self.places = places
        self._counts = counts

    def counts(self) -> list[int]:
        """Return how many rows have each of the different values."""
        if self._counts is None:
            self._counts = np.bincount(self.places, minlength=len(self.distinct)).tolist()
        return self._counts

    def map(self, change: Callable[[T], U]) -> ByRow[U]:
        """Return other values for the same rows; ``change`` runs once for each different one."""
        return ByRow([change(status) for status in self.distinct], self.places, self._counts)

    def __len__(self) -> int:
        return int(self.places.size)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> ByRow[T]: ...

    def __getitem__(self, index: int | slice) -> T | ByRow[T]:
        if isinstance(index, slice):
            return ByRow(self.distinct, self.places[index])
        return self.distinct[self.places.item(index)]

    def __iter__(self) -> Iterator[T]:
        distinct = self.distinct
        return iter([distinct[number] for number in self.places.tolist()])


class StatusTable:
    """Numbers of statuses, from 1; equal statuses have one number. It only grows."""

    __slots__ = ("_numbers", "statuses")

    def __init__(self) -> None:
        self._numbers: dict[Status, int] = {}
        self.statuses: list[Status] = [Status()]

    def number(self, status: Status) -> int:
        """Return the number of a status, a new one if it was never seen."""
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self.statuses)
            self.statuses.append(status)
        return number

    def numbers(self, statuses: Sequence[Status]) -> list[int] | NDArray[np.intp]:
        """Return the numbers of many statuses, of which most are the same objects."""
        if isinstance(statuses, ByRow):
            numbers = np.array([self.number(distinct) for distinct in statuses.distinct], np.intp)
            return numbers.take(statuses.places)
        by_id: dict[int, int] = {}
        listed = []
        for status in statuses:
            number = by_id.get(id(status))
            if number is None:
                number = by_id[id(status)] = self.number(status)
            listed.append(number)
        return listed


Groups: TypeAlias = Sequence[
    tuple[NDArray[np.intp], Sequence[Status]] | tuple[NDArray[np.bool_], Status]
]
"""Groups of rows, shape (k,), with one status for each row; or flags over all rows with one status
for all of them."""


class Rejections(Mapping[int, Status]):
    """Statuses by row, ascending."""

    __slots__ = ("_counts", "_groups", "_numbers", "_statuses", "_table", "_tally")

    def __init__(self, numbers: NDArray[np.intp], table: StatusTable) -> None:
        self._numbers = numbers
        self._groups: Groups = ()
        self._table = table
        self._statuses = table.statuses
        self._counts: dict[int, int] | None = None
        self._tally: dict[Status, int] | None = None

    @classmethod
    def grouped(cls, n: int, groups: Groups, table: StatusTable) -> Rejections:
        """Return the statuses of groups of the rows [0, n), which have no row in common."""
        rejections = cls(np.zeros(n, np.intp), table)
        rejections._groups = groups
        counts: Counter[int] = Counter()
        for rows, statuses in groups:
            if isinstance(statuses, Status):
                counts[table.number(statuses)] += int(np.count_nonzero(rows))
            elif isinstance(statuses, ByRow):
                for status, count in zip(statuses.distinct, statuses.counts(), strict=True):
                    counts[table.number(status)] += count
            else:
                assert rows.size == len(statuses), "each row has a status"
                counts.update(table.numbers(statuses))
        rejections._counts = {number: counts[number] for number in sorted(counts)}
        return rejections

    def with_rows(
        self, rows: Sequence[int], groups: Groups, others: Mapping[int, Status]
    ) -> Rejections:
        """Return a copy in which some rows have the statuses of ``groups``, or none.

        ``others``: statuses of more rows.
        """
        numbers = self.numbers.copy()
        before = [numbers.item(row) for row in (*rows, *others)]
        if rows:
            numbers[rows] = NOTHING
            spread(numbers, groups, self._table)
        for row, status in others.items():
            numbers[row] = self._table.number(status)
        rejections = Rejections(numbers, self._table)
        if len(before) > thresholds.FEW_ROWS:
            return rejections
        counts = dict(self._counted())
        for row, gone in zip((*rows, *others), before, strict=True):
            come = numbers.item(row)
            counts[gone] = counts.get(gone, 0) - 1
            counts[come] = counts.get(come, 0) + 1
        rejections._counts = {i: n for i, n in sorted(counts.items()) if n and i != NOTHING}
        return rejections

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The number of each row's status, by row of the node table; not to be changed.

        Most that is said of rejections are counts, so groups are spread over their rows late.
        """
        if self._groups:
            spread(self._numbers, self._groups, self._table)
            self._groups = ()
        return self._numbers

    def __getitem__(self, row: int) -> Status:
        numbers = self.numbers
        number = numbers.item(row) if 0 <= row < numbers.size else NOTHING
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
            statuses = self._statuses
            self._tally = {statuses[i]: count for i, count in self._counted().items()}
        return self._tally

    def _counted(self) -> dict[int, int]:
        """Return how many rows have each number."""
        if self._counts is None:
            counts = np.bincount(self.numbers).tolist()
            self._counts = {i: count for i, count in enumerate(counts) if count and i != NOTHING}
        return self._counts

    def rows_with(self, code: Code) -> NDArray[np.intp]:
        """Return the rows whose status has this code, ascending, shape (k,)."""
        chosen = [i for i in self._counted() if self._statuses[i].code is code]
        if not chosen:
            return np.empty(0, np.intp)
        if len(chosen) == 1:
            rows: NDArray[np.intp] = (self.numbers == chosen[0]).nonzero()[0]
            return rows
        has = np.zeros(len(self._statuses), np.bool_)
        has[chosen] = True
        return np.flatnonzero(has[self.numbers])


def spread(numbers: NDArray[np.intp], groups: Groups, table: StatusTable) -> None:
    """Write the number of each row's status."""
    for rows, statuses in groups:
        if isinstance(statuses, Status):
            numbers[rows] = table.number(statuses)
        else:
            numbers[rows] = table.numbers(statuses)


def tally(statuses: Mapping[int, Status]) -> Mapping[Status, int]:
    """Return how many rows have each status."""
    return statuses.tally() if isinstance(statuses, Rejections) else Counter(statuses.values())


def rows_with(statuses: Mapping[int, Status], code: Code) -> NDArray[np.intp]:
    """Return the rows whose status has this code, ascending, shape (k,)."""
    if isinstance(statuses, Rejections):
        return statuses.rows_with(code)
    return np.array(sorted(row for row, s in statuses.items() if s.code is code), np.intp)


NO_NODES: Final = "no nodes available to schedule pods"


class Diagnosis(msgspec.Struct):
    """What the failed attempt found.

    ``statuses``: row of the node table to the status that rejected it (live rows only).
    ``pre_filter``: the rejection of the whole pod, if a PreFilter plugin rejected it.
    ``node_count``: live nodes. ``post_filter``: the status of the PostFilter plugins, if they ran.
    ``narrowed_by``: PreFilter plugins that left only some nodes to look at.
    """

    node_count: int
    statuses: Mapping[int, Status] = msgspec.field(default_factory=dict)
    pre_filter: Status | None = None
    post_filter: Status | None = None
    narrowed_by: tuple[str, ...] = ()

    def rejectors(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the plugins that rejected the pod, and those of them that returned Pending.

        PreFilter plugins that restricted the nodes are included. Without nodes there are none.
        """
        if self.node_count == 0:
            return frozenset(), frozenset()
        statuses = tally(self.statuses) if self.pre_filter is None else (self.pre_filter,)
        pending = {status.plugin for status in statuses if status.code is Code.PENDING}
        others = {status.plugin for status in statuses if status.code is not Code.PENDING}
        others.update(self.narrowed_by)
        others.discard("")
        return frozenset(others), frozenset(pending)

    def message(self) -> str:
        """Return the text of the FailedScheduling event and the PodScheduled condition."""
        if self.node_count == 0:
            return NO_NODES
        head = f"0/{self.node_count} nodes are available:"
        if self.pre_filter is not None:
            text = f"{head} {self.pre_filter.message()}." if self.pre_filter.reasons else head
        else:
            reasons = histogram(tally(self.statuses))
            text = f"{head} {reasons}." if reasons else head
        if self.post_filter is not None and self.post_filter.reasons:
            text = f"{text} {self.post_filter.message()}"
        return text


def histogram(counts: Mapping[Status, int]) -> str:
    """Add up each reason's nodes and join the sums, sorted as strings ("10 x" before "2 y").

    ``counts``: how many nodes have each status.
    """
    sums: Counter[str] = Counter()
    for status, count in counts.items():
        for reason in status.reasons:
            sums[reason] += count
    return ", ".join(sorted(f"{count} {reason}" for reason, count in sums.items()))
