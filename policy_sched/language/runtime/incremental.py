"""Columns and counts that follow the journal of the node table, row by row.

Materialized columns. A program's pod-invariant operations form two groups: those that read static
columns only, and those that change with pods. Before a full pass the journal names the rows that
changed, and the functions of one row compute them. At the start, when nodes are added or deleted,
and when many rows changed, the functions of all rows compute all; both give equal values. A mask
that holds for every live row, or for none, is returned as True or False; the absence of errors is
returned as 0.

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


class MaterializedColumn:
    """One column. ``limit``: doubles of greater magnitude are no longer exact.

    ``flags``: the values are bools or errors, which may be the same for all live rows.
    """

    __slots__ = ("_live", "_set", "flags", "limit", "rep", "shown", "values", "within")

    def __init__(self, rep: str, limit: float | None) -> None:
        self.rep = rep
        self.flags = rep in "be"
        self.limit = limit
        self.within = True
        self.shown: Any = None
        """What readers get: a read-only array, or one value for all live rows."""
        self.values: Values = np.empty(0)
        self._live = 0
        self._set = 0

    def fill(self, values: Any, live: npt.NDArray[np.bool_]) -> None:
        """Set the values of all rows; ``live`` is true for those that count."""
        wide = isinstance(values, np.ndarray) and values.dtype.kind == "O"
        whole: Values = np.empty(len(live), np.object_ if wide else _DTYPES[self.rep])
        whole[:] = values
        self.values = whole
        if self.limit is not None:
            sizes = np.abs(whole)
            sizes = sizes[np.isfinite(sizes)]
            self.within = not sizes.size or bool(sizes.max() < self.limit)
        if self.flags:
            self._live = int(np.count_nonzero(live))
            self._set = int(np.count_nonzero(whole[live]))
        self._show()

    def memory(self) -> Memory:
        """Return the values, to be changed one by one: quickest in a view of the memory."""
        return self.values if self.values.dtype.hasobject else self.values.data

    def put(self, row: int, value: Any) -> bool:
        """Change a live row's flag; return whether readers get something else than before."""
        change = bool(value) - bool(self.values[row])
        self.values[row] = value
        if not change:
            return False
        shown = self.shown
        self._set += change
        self._show()
        return self.shown is not shown

    def _show(self) -> None:
        if self.rep == "b" and self._set == self._live:
            self.shown = True
        elif self.rep in "be" and not self._set:
            self.shown = False if self.rep == "b" else 0
        elif not isinstance(self.shown, np.ndarray) or self.shown.base is not self.values:
            self.shown = self.values.view()
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
        self._flags = [(place, column) for place, column in enumerate(columns) if column.flags]
        self._numbers: list[tuple[int, Memory, float]] = []
        """Of each other column its place, its memory, and its limit."""

    def fill(self, live: npt.NDArray[np.bool_]) -> None:
        """Compute all rows."""
        n = len(live)
        with np.errstate(all="ignore"):
            for column, values in zip(self.columns, self._all_rows(slice(0, n), n), strict=True):
                column.fill(values, live)
        self._numbers = [
            (place, column.memory(), math.inf if column.limit is None else column.limit)
            for place, column in enumerate(self.columns)
            if not column.flags
        ]

    def put(self, row: int) -> bool:
        """Compute one row; return whether readers get something else than the same arrays."""
        changed, values = False, self._one_row(row)
        for place, column in self._flags:
            changed |= column.put(row, values[place])
        for place, numbers, limit in self._numbers:
            number = numbers[row] = values[place]
            if not -limit < number < limit and limit <= abs(number) < math.inf:
                self.columns[place].within = False
                changed = True
        return changed


class MaterializedColumns:
    """The materialized columns of one program over one table; ``n``: their rows."""

    def __init__(self, table: NodeTable, static: ColumnGroup, dynamic: ColumnGroup) -> None:
        self._table = table
        self._static = static
        self._dynamic = dynamic
        self._columns = [*static.columns, *dynamic.columns]
        self._moves = bool(dynamic.columns)
        self._version = -1
        self.n = -1
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
        journal, n = table.journal, table.n
        changes = journal.since(self._version) if self.n == n else None
        self._version, self.n = journal.version, n
        try:
            many = changes is None or len(changes.rows) > thresholds.FEW_ROWS
            if changes is None or many or changes.kind & STRUCTURE:
                self._fill(static=changes is None or changes.kind != DYNAMIC)
                changed = True
            else:
                changed = self._put(changes)
            if changed:
                within = all(column.within for column in self._columns)
                self._shown = tuple([one.shown for one in self._columns]) if within else None
        except LimitError:
            self.n, self._shown = -1, None

    def _fill(self, *, static: bool = True) -> None:
        """Compute all rows; of columns that change with pods alone where the others hold."""
        live = self._table.live.values[: self.n]
        if static:
            self._static.fill(live)
        self._dynamic.fill(live)

    def _put(self, changes: Changes) -> bool:
        """Compute what changed; return whether readers get something else than the same arrays."""
        alive, changed = self._table.live.view, False
        try:
            for row, kind in zip(changes.rows, changes.kinds, strict=True):
                if not alive[row]:
                    continue
                if kind != DYNAMIC and self._static.columns:
                    changed |= self._static.put(row)
                if self._moves:
                    changed |= self._dynamic.put(row)
        except (OverflowError, ValueError):  # of an array, of its memory
            # A sum that int64 arrays wrap and that a single row does not.
            self._fill()
            return True
        return changed


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
        key = condition, tuple(map(_hashable, values))
        count = self._kept.get(key)
        if count is None:
            self._nodes.statuses_read |= condition.statuses
            count = self._fresh(IncrementalCount(self._domains), condition, amount, values)
            self._kept.put(key, count)
        elif count.version != self._nodes.journal.version:
            self._follow(count, condition, amount, values)
        return count

    def _follow(
        self, count: IncrementalCount, condition: Condition, amount: Amount, values: tuple[Any, ...]
    ) -> None:
        nodes = self._nodes
        changes = nodes.journal.since(count.version)
        if (
            changes is None
            or nodes.n != len(count.by_row)
            or (condition.equal and len(changes.rows) > thresholds.FEW_ROWS)
        ):
            self._fresh(count, condition, amount, values)
            return
        for row in changes.rows:
            count.put(row, sum(amount(p, *values) for p in nodes.pods_on(row).values()))
        count.version = nodes.journal.version

    def _fresh(
        self, count: IncrementalCount, condition: Condition, amount: Amount, values: tuple[Any, ...]
    ) -> IncrementalCount:
        nodes = self._nodes
        numbers = np.zeros(nodes.n, np.object_ if condition.wide else np.int64)
        if self._pods is not None:
            rows, infos = self._chosen(self._pods, condition, values)
            amounts = [0 if info is None else amount(info, *values) for info in infos]
            np.add.at(numbers, rows, np.array(amounts, numbers.dtype))
        else:
            for row in nodes.row_of.values():
                numbers[row] = sum(amount(p, *values) for p in nodes.pods_on(row).values())
        count.start(numbers)
        count.version = nodes.journal.version
        return count

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
