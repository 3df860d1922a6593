"""Counts: how much of something is on each node, and in each topology domain, kept up to date.

Theory of operation: amounts are kept by row, rows without any left out, so that thousands of
Counts cost little. A domain is the nodes with one value of a label; the domains of a label are
worked out on first use and again when nodes change. The totals of a label's domains are an array
that is created on first use and kept up to date pod by pod until the domains change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable

T = TypeVar("T", bound=np.generic)

ROW: Final = ""
"""The key under which each row is a domain of its own; no label key is empty."""
_PART: Final = "\0"
"""The first character of the keys of partial domains."""
#: Totals of so many domains are kept in a Counts before those of partial ones are dropped.
KEPT: Final = 16

_serial = count()


class Domain:
    """The rows [0, n) grouped by the value of a label.

    ``ids``: intp, shape (n,): number of the row's domain, ``count`` where the row has no such
    label. ``complete``: every live row has the label. ``empty``: number of the domain whose
    value is the empty text, ``count`` if there is none. ``in_order``: each row is the domain of its
    own number.
    """

    __slots__ = (
        "_rows",
        "complete",
        "count",
        "empty",
        "id_view",
        "ids",
        "in_order",
        "key",
        "version",
    )

    def __init__(self, key: str, table: NodeTable) -> None:
        self.key = key
        self._rows: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        self.version = _version(key, table)
        n = table.n
        if key == ROW:
            self.count = self.empty = n
            self.ids: NDArray[np.intp] = np.arange(n)
            self.complete = True
        else:
            codes = table.lookup(("label", key)).values[:n]
            values, inverse = np.unique(codes, return_inverse=True)
            missing = bool(values.size and values[0] == 0)
            self.count = int(values.size) - missing
            ids = inverse.astype(np.intp) - missing
            ids[ids < 0] = self.count
            self.ids = ids
            self.complete = not bool((ids[table.live.values[:n]] == self.count).any())
            place = np.flatnonzero(values == table.strings.code(""))
            self.empty = int(place[0]) - missing if place.size else self.count
        self.id_view: memoryview[int] = self.ids.data
        self.in_order = self.count == n and bool((self.ids == np.arange(n)).all())

    def of_rows(self, table: NDArray[T]) -> NDArray[T]:
        """Return the number that each row's domain has in a table, shape (count + 1,)."""
        return table[:-1] if self.in_order else table.take(self.ids, mode="clip")

    def part(self, mask: NDArray[np.bool_]) -> Domain:
        """Return the domains over the rows in ``mask``; the others are one domain, the last."""
        part = Domain.__new__(Domain)
        part._rows = None  # noqa: SLF001  # it is a Domain, too
        part.key = f"{_PART}{next(_serial)}"
        part.version = self.version
        part.count, part.empty = self.count + 1, self.empty
        part.complete = part.in_order = False
        part.ids = np.where(mask, self.ids, self.count + 1)
        part.id_view = part.ids.data
        return part

    def rows_of(self, numbers: Sequence[int]) -> NDArray[np.intp]:
        """Return the rows of domains, ascending; ``count``: those without the label."""
        if self._rows is None:
            ends = np.zeros(self.count + 2, np.intp)
            np.cumsum(np.bincount(self.ids, minlength=self.count + 1), out=ends[1:])
            self._rows = np.argsort(self.ids, kind="stable"), ends
        order, ends = self._rows
        parts = [order[ends[number] : ends[number + 1]] for number in numbers]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rows have the label, shape (n,)."""
        return self.ids < self.count


class Domains:
    """The domains of one node table by label key."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[str, Domain] = {}
        self._current: dict[str, Domain] = {}
        """Those that hold in ``_version``, a static version of the table."""
        self._version = -1

    def of(self, key: str) -> Domain:
        """Return the domain of a label key, or of ROW, as the nodes are now."""
        if self._version != self._table.journal.nodes_version:
            self._version = self._table.journal.nodes_version
            self._current.clear()
        domain = self._current.get(key)
        if domain is None:
            domain = self._known.get(key)
            if domain is None or domain.version != _version(key, self._table):
                domain = self._known[key] = Domain(key, self._table)
            self._current[key] = domain
        return domain

    def drop_stale(self) -> frozenset[str]:
        """Forget the domains that no longer hold, and return their keys."""
        stale = frozenset(
            key for key, d in self._known.items() if d.version != _version(key, self._table)
        )
        for key in stale:
            del self._known[key]
        self._current.clear()
        return stale


def _version(key: str, table: NodeTable) -> tuple[int, int, int]:
    """Return what rises when the domain of a key changes, or which rows are live."""
    if key == ROW:
        return table.n, 0, 0
    return table.n, table.live.version, table.lookup(("label", key)).version


class Counts:
    """Amounts by row of the node table; ``by_row`` holds those that are not zero.

    ``version`` rises when totals are dropped: what `by` returned before is not kept up to date.
    """

    __slots__ = ("_totals", "_views", "by_row", "version")

    def __init__(self) -> None:
        self.version = 0
        self.by_row: dict[int, int] = {}
        self._totals: dict[str, tuple[Domain, NDArray[np.int64]]] = {}
        self._views: dict[str, tuple[memoryview[int], memoryview[int]]] = {}

    def add(self, row: int, amount: int) -> None:
        """Add to a row; an amount below zero takes away."""
        by_row = self.by_row
        now = by_row.get(row, 0) + amount
        if now:
            by_row[row] = now
        else:
            by_row.pop(row, None)
        for ids, totals in self._views.values():
            totals[ids[row]] += amount

    def by(self, domain: Domain) -> NDArray[np.int64]:
        """Return the totals by domain, shape (count + 1,); the last is of rows without the label.

        The array changes as pods come and go while ``version`` stays: copy what is to last.
        """
        kept = self._totals.get(domain.key)
        if kept is not None:  # `forget` has dropped those of domains that do not hold
            return kept[1]
        if len(self._totals) >= KEPT:
            self.forget(())
        totals = np.zeros(domain.count + 1, np.int64)
        by_row = self.by_row
        if by_row:
            rows = np.fromiter(by_row, np.intp, len(by_row))
            amounts = np.fromiter(by_row.values(), np.int64, len(by_row))
            np.add.at(totals, domain.ids[rows], amounts)
        self._totals[domain.key] = (domain, totals)
        self._views[domain.key] = (domain.id_view, totals.data)
        return totals

    def forget(self, keys: Collection[str]) -> None:
        """Drop the totals of labels whose domains no longer hold, and those of partial domains."""
        self.version += 1
        for key in [key for key in self._totals if key in keys or key.startswith(_PART)]:
            del self._totals[key], self._views[key]

    def kept(self) -> Collection[tuple[Domain, NDArray[np.int64]]]:
        """Return the totals by label that are kept, each with its domain."""
        return [kept for key, kept in self._totals.items() if not key.startswith(_PART)]
