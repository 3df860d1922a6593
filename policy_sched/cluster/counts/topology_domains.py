"""The topology domains of the nodes: which nodes share the value of a label, as dense numbers.

Theory of operation: a Domains hands out one Domain per label key and keeps it until a node's
value of that label changes, or nodes come or go. A Domain never changes; ``current`` tells whether
it is of the present state of the cluster.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable

ROW: Final = ""
"""The key under which each row is a domain of its own; no label key is empty."""


class Domain:
    """The rows [0, n) grouped by the value of a label.

    ``ids``: intp, shape (n,): number of the row's domain, ``count`` where the row has no such
    label. ``complete``: every live row has the label. ``empty``: number of the domain whose
    value is the empty text, ``count`` if there is none.
    """

    __slots__ = ("complete", "count", "empty", "id_view", "ids", "key", "version")

    def __init__(self, key: str, table: NodeTable) -> None:
        self.key = key
        self.version = _version(key, table)
        n = table.n
        if key == ROW:
            self.count = self.empty = n
            self.ids: NDArray[np.intp] = np.arange(n)
            self.complete = True
        else:
            codes = table.lookup(("label", key)).values[:n]
            found, inverse = np.unique(codes, return_inverse=True)
            missing = bool(found.size and found[0] == 0)
            self.count = int(found.size) - missing
            ids = inverse.astype(np.intp) - missing
            ids[ids < 0] = self.count
            self.ids = ids
            self.complete = not bool((ids[table.live.values[:n]] == self.count).any())
            place = np.flatnonzero(found == table.strings.code(""))
            self.empty = int(place[0]) - missing if place.size else self.count
        self.id_view: memoryview[int] = self.ids.data

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rows have the label, shape (n,)."""
        return self.ids < self.count


class Domains:
    """The domains of one node table by label key."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[str, Domain] = {}

    def of(self, key: str) -> Domain:
        """Return the domain of a label key, or of ROW, as the nodes are now."""
        domain = self._known.get(key)
        if domain is None or domain.version != _version(key, self._table):
            domain = self._known[key] = Domain(key, self._table)
        return domain

    def drop_stale(self) -> frozenset[str]:
        """Forget the domains that no longer hold, and return their keys."""
        stale = frozenset(
            key for key, d in self._known.items() if d.version != _version(key, self._table)
        )
        for key in stale:
            del self._known[key]
        return stale


def _version(key: str, table: NodeTable) -> tuple[int, int, int]:
    """Return what rises when the domain of a key changes, or which rows are live."""
    if key == ROW:
        return table.n, 0, 0
    return table.n, table.live.version, table.lookup(("label", key)).version
