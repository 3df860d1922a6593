"""Counts: how much of something is on each node, and in each topology domain, kept up to date.

Theory of operation: amounts are kept by row, rows without any left out, so that thousands of
Counts cost little. The totals of a label's domains are an array that is created on first use and
kept up to date pod by pod until the domains change.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts.topology_domains import Domain


class Counts:
    """Amounts by row of the node table; ``by_row`` holds those that are not zero."""

    __slots__ = ("_totals", "_views", "by_row")

    def __init__(self) -> None:
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

        The array changes as pods come and go: copy what is to last.
        """
        kept = self._totals.get(domain.key)
        if kept is not None and kept[0] is domain:
            return kept[1]
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
        """Drop the totals of labels whose domains no longer hold."""
        if not self._totals.keys().isdisjoint(keys):
            self._totals = {k: kept for k, kept in self._totals.items() if k not in keys}
            self._views = {k: views for k, views in self._views.items() if k not in keys}

    def kept(self) -> Collection[tuple[Domain, NDArray[np.int64]]]:
        """Return the totals that are kept, each with its domain."""
        return self._totals.values()
