"""Scores that only the domain of a node decides: computed by domain, and then spread over nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts.counts import Domain

Scores: TypeAlias = NDArray[np.int64]

#: It is worth it where a domain has so many nodes on average.
NODES_EACH: Final = 4


class DomainScores:
    """A score for each domain of a label, and what a normaliser makes of it.

    ``table``: int64, shape (domain.count + 1,), the last of nodes without the label; it must not be
    changed. All arrays over nodes are read-only, and the same ones again until a number in them
    changes.
    """

    __slots__ = ("_ids", "_normalized", "_present", "_raw", "_rows", "_values", "domain", "table")

    def __init__(self, domain: Domain, table: Scores) -> None:
        self.domain = domain
        self.table = table
        self._raw: Scores | None = None
        self._rows: NDArray[np.intp] | None = None
        self._ids = self._present = domain.ids
        self._values: Scores | None = None
        self._normalized: Scores | None = None

    @staticmethod
    def pays(domain: Domain) -> bool:
        """Return whether the label has far fewer values than there are nodes."""
        return domain.count * NODES_EACH <= domain.ids.size

    def changed(self, table: Scores) -> DomainScores:
        """Return the scores with another table; self if it is equal."""
        if table.tobytes() == self.table.tobytes():
            return self
        other = DomainScores(self.domain, table)
        other._rows, other._ids, other._present = self._rows, self._ids, self._present
        other._values, other._normalized = self._values, self._normalized
        return other

    def raw(self) -> Scores:
        """Return the score of each row, shape (n,)."""
        if self._raw is None:
            self._raw = self.domain.of_rows(self.table)
            self._raw.flags.writeable = False
        return self._raw

    def normalized(self, rows: NDArray[np.intp], normalize: Callable[[Scores], Scores]) -> Scores:
        """Return the normalised scores of ``rows``, the feasible ones.

        ``normalize`` reads which scores there are, not how many nodes have each.
        """
        if self._rows is not rows:
            ids = self.domain.ids
            self._rows, self._ids = rows, ids if rows.size == ids.size else ids[rows]
            seen = np.zeros(self.table.size, np.bool_)
            seen[self._ids] = True
            self._present = np.flatnonzero(seen)
            self._values = None
        values = normalize(self.table[self._present])
        known = self._values
        if known is None or self._normalized is None or values.tobytes() != known.tobytes():
            table = np.zeros(self.table.size, np.int64)
            table[self._present] = values
            self._normalized = table.take(self._ids, mode="clip")
            self._normalized.flags.writeable = False
            self._values = values
        return self._normalized
