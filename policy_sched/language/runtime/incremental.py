"""Columns and counts that follow the journal of the node table, row by row.

Materialized columns. A program's pod-invariant operations form two groups: those that read static
columns only, and those that change with pods. Before a full pass the journal names the rows that
changed, and the functions of one row compute them. At the start, when nodes are added or deleted,
and when many rows changed, the functions of all rows compute all; both give equal values. Where all
live rows have a flag, or none has it, one value stands for the column, until a row gets another.

Counts of pods. What a pod counts is a rule's function of it and of some values of the scheduled
pod: whether a condition holds, or an int to be summed. There is one count per function and values.
It starts from the pod table: equalities with texts select pods by column, and the function is
called for the remaining pods. Then only rows that the journal names are counted again. A count that
is too far behind starts anew. The least recently used counts are evicted.

Both belong to the node table: programs over an overlay compute every value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched import thresholds
from policy_sched.cluster.counts import Domain, Domains
from policy_sched.cluster.tables import DYNAMIC, STRUCTURE, Changes, NodeTable, PodTable
from policy_sched.language.values import LimitError
from policy_sched.lru import Lru
from policy_sched.model import PodInfo

Values = npt.NDArray[Any]
Memory: TypeAlias = "Values | memoryview[Any]"
_DTYPES: Final = {"b": np.bool_, "i": np.int64, "f": np.float64, "e": np.int16}


class ColumnGroup:
    """Materialized columns that change together, and the functions that compute them.

    ``columns``: the type of each, and the magnitude from which on doubles are no longer exact.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, float | None]],
        one_row: Callable[[int], Sequence[Any]],
        all_rows: Callable[[slice, int], Sequence[Any]],
    ) -> None:
        self._columns = columns
        self._one_row = one_row
        self._all_rows = all_rows
        self._memory: list[tuple[Memory, float, bool | None]] = []
        """Of each column its values, to be changed one by one, its limit, and what is shown in
        place of it."""
        self.shown: list[Any] = []
        """The columns as readers get them: read-only arrays, or one value for all live rows."""
        self.within = True
        """Whether all numbers are below their limits."""

    def fill(self, live: npt.NDArray[np.bool_]) -> None:
        """Compute all rows; ``live`` is true for those that count."""
        n = len(live)
        self._memory, self.shown, self.within = [], [], True
        with np.errstate(all="ignore"):
            computed = self._all_rows(slice(0, n), n)
        for (rep, limit), values in zip(self._columns, computed, strict=True):
            wide = isinstance(values, np.ndarray) and values.dtype.kind == "O"
            whole: Values = np.empty(n, np.object_ if wide else _DTYPES[rep])
            whole[:] = values
            if limit is not None:
                sizes = np.abs(whole)
                self.within &= not (np.isfinite(sizes) & (sizes >= limit)).any()
            same = None
            if rep in "be":
                there = whole[live]
                same = True if rep == "b" and there.all() else None if there.any() else False
            shown = whole.view()
            shown.flags.writeable = False
            self.shown.append(shown if same is None else same if rep == "b" else 0)
            # Numbers are changed one by one quickest in a view of the memory.
            memory = whole if wide else whole.data
            self._memory.append((memory, math.inf if limit is None else limit, same))

    def put(self, row: int) -> bool:
        """Compute one live row; False if all rows must be computed."""
        try:
            for (memory, limit, same), value in zip(self._memory, self._one_row(row), strict=True):
                memory[row] = value
                if same is not None and value != same:
                    return False
                if limit <= abs(value) < math.inf:
                    self.within = False
        except (OverflowError, ValueError):  # of an array, of its memory
            return False  # a sum that int64 arrays wrap and that a single row does not
        return True


class MaterializedColumns:
    """The materialized columns of one program over one table.

    ``moves``: whether some change with pods. ``n``: their rows.
    """

    def __init__(
        self, table: NodeTable, static: ColumnGroup, dynamic: ColumnGroup, *, moves: bool
    ) -> None:
        self._table = table
        self._static = static
        self._dynamic = dynamic
        self._moves = moves
        self._version = -1
        self.n = -1
        self._shown: tuple[Any, ...] | None = None

    def arrays(self) -> tuple[Any, ...] | None:
        """Return the columns, static ones first, as read-only arrays.

        One value stands for a flag that all live rows have, or none. None if they cannot be used:
        a column left its limit.
        """
        journal = self._table.journal
        if self._version < (journal.version if self._moves else journal.static_version):
            self._renew()
        return self._shown if self._static.within and self._dynamic.within else None

    def _renew(self) -> None:
        """Update the columns; drop them if that takes too much work."""
        journal, n = self._table.journal, self._table.n
        changes = journal.since(self._version) if self.n == n else None
        self._version, self.n = journal.version, n
        try:
            if changes is None:
                self._fill()
            elif changes.kind & STRUCTURE or len(changes.rows) > thresholds.FEW_ROWS:
                self._fill(static=changes.kind != DYNAMIC)
            elif not self._put(changes):
                self._fill()
        except LimitError:
            self.n, self._shown = -1, None

    def _fill(self, *, static: bool = True) -> None:
        """Compute all rows; of columns that change with pods alone where the others hold."""
        live = self._table.live.values[: self.n]
        if static:
            self._static.fill(live)
        self._dynamic.fill(live)
        self._shown = (*self._static.shown, *self._dynamic.shown)

    def _put(self, changes: Changes) -> bool:
        """Compute the rows that changed; False if all must be computed."""
        alive = self._table.live.view
        for row, kind in zip(changes.rows, changes.kinds, strict=True):
            if alive[row]:
                if kind != DYNAMIC and not self._static.put(row):
                    return False
                if self._moves and not self._dynamic.put(row):
                    return False
        return True


#: Counts of one program that are kept.
LIMIT: Final = 512

Numbers = npt.NDArray[np.int64]
Amount = Callable[..., int]


class Condition(msgspec.Struct, frozen=True, eq=False):
    """Of which pods a count is: each column of the pod table in ``equal`` has to have its text.

    That is a text, or the position of a text among the values of the scheduled pod.
    """

    equal: tuple[tuple[tuple[str, ...], str | int], ...]
    statuses: bool = False
    """Whether it reads what may change of a pod on a node while it uses the same resources."""
    wide: bool = False
    """Whether sums may leave int64: numbers are Python's then, and only the total is read."""


class IncrementalCount:
    """What the pods on each row count together."""

    __slots__ = ("_domains", "_totals", "by_row", "total", "version")

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._totals: dict[str, tuple[Domain, Numbers]] = {}
        """By label key, as long as no row has another number."""
        self.by_row: npt.NDArray[Any] = np.zeros(0, np.int64)
        self.total = 0
        self.version = -1

    def rows(self, rows: slice | npt.NDArray[np.intp]) -> Numbers:
        """Return the numbers of rows as a read-only array."""
        counts = self.by_row[rows]
        counts.flags.writeable = False
        return counts

    def domain_rows(self, key: str, rows: slice | npt.NDArray[np.intp]) -> Numbers:
        """Return for each row the number of its domain's pods; 0 where it has no such label."""
        domain = self._domains.of(key)
        return self._by_domain(domain).take(domain.ids[rows])

    def domain_total(self, key: str, row: int) -> int:
        """Return the number of pods in the domain of one row."""
        domain = self._domains.of(key)
        return int(self._by_domain(domain)[domain.id_view[row]])

    def _by_domain(self, domain: Domain) -> Numbers:
        kept = self._totals.get(domain.key)
        if kept is not None and kept[0] is domain:
            return kept[1]
        totals = np.zeros(domain.count + 1, np.int64)
        np.add.at(totals, domain.ids, self.by_row)
        totals[domain.count] = 0
        self._totals[domain.key] = domain, totals
        return totals

    def start(self, by_row: npt.NDArray[Any]) -> None:
        """Set the numbers of all rows."""
        self.by_row = by_row
        self.total = int(by_row.sum())
        self._totals.clear()

    def put(self, row: int, number: int) -> None:
        """Set the number of one row."""
        change = number - self.by_row.item(row)
        if not change:
            return
        self.by_row[row] = number
        self.total += change
        self._totals.clear()


class IncrementalCounts:
    """The counts over one cluster's tables. Without ``pods`` they start node by node."""

    def __init__(self, nodes: NodeTable, pods: PodTable | None) -> None:
        self._nodes = nodes
        self._pods = pods
        self._domains = Domains(nodes)
        self._kept: Lru[tuple[Condition, tuple[object, ...]], IncrementalCount] = Lru(LIMIT)

    def of(self, condition: Condition, amount: Amount, values: tuple[Any, ...]) -> IncrementalCount:
        """Return the count for some values, up to date; a pod counts ``amount(pod, *values)``."""
        nodes, key = self._nodes, (condition, tuple(map(_hashable, values)))
        count = self._kept.get(key)
        if count is None:
            nodes.statuses_read |= condition.statuses
            count = IncrementalCount(self._domains)
            count.start(self._counted(condition, amount, values))
            self._kept.put(key, count)
        elif count.version != nodes.journal.version:
            changes = nodes.journal.since(count.version)
            if (
                changes is None
                or nodes.n != len(count.by_row)
                or (condition.equal and len(changes.rows) > thresholds.FEW_ROWS)
            ):
                count.start(self._counted(condition, amount, values))
            else:
                for row in changes.rows:
                    count.put(row, sum(amount(p, *values) for p in nodes.pods_on(row).values()))
        count.version = nodes.journal.version
        return count

    def _counted(
        self, condition: Condition, amount: Amount, values: tuple[Any, ...]
    ) -> npt.NDArray[Any]:
        """Return the numbers of all rows."""
        nodes = self._nodes
        numbers = np.zeros(nodes.n, np.object_ if condition.wide else np.int64)
        if self._pods is not None:
            rows, infos = self._chosen(self._pods, condition, values)
            amounts = [0 if info is None else amount(info, *values) for info in infos]
            np.add.at(numbers, rows, np.array(amounts, numbers.dtype))
        else:
            for row in nodes.row_of.values():
                numbers[row] = sum(amount(p, *values) for p in nodes.pods_on(row).values())
        return numbers

    def _chosen(
        self, pods: PodTable, condition: Condition, values: tuple[Any, ...]
    ) -> tuple[npt.NDArray[np.intp], Iterator[PodInfo | None]]:
        """Return the pods on nodes that have the texts of a condition, with their nodes' rows."""
        nodes: npt.NDArray[np.intp] = pods.node.values[: pods.n]
        chosen = nodes >= 0
        for column, wanted in condition.equal:
            codes = pods.lookup(column).values[: pods.n]  # first: it may give new codes
            text = wanted if isinstance(wanted, str) else values[wanted]
            chosen &= codes == pods.strings.find(text)
        places = np.flatnonzero(chosen)
        return nodes[places], (pods.infos[i] for i in places.tolist())


def _hashable(value: Any) -> Any:
    """Return a hashable key for a value: lists and mappings are equal to no other type's."""
    if isinstance(value, Mapping):
        return Mapping, frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(_hashable, value))
    return value
