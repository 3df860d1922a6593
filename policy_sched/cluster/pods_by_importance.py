"""The pods of every node in an order of importance, kept up to date row by row.

Theory of operation: ``block`` has one column per row of the node table and in it the rows of the
pod table, the most important pod first. The journal says on which nodes pods came, went or
changed since; only their columns are sorted anew: a few one by one, many in one sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache

Keys: TypeAlias = Callable[[NDArray[np.intp]], tuple[NDArray[np.int64], ...]]
"""From rows of the pod table, shape (p,), to sort keys of the same shape, the deciding one first;
smaller numbers come first. They may read nothing but the pods' own columns."""


#: Up to so many nodes are sorted one by one; for more, all pods are looked through once.
FEW: Final = 8


class PodOrder:
    """Pods by node and importance. ``keys`` defines importance."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys
        self._version = -1
        self._block: NDArray[np.intp] = np.full((0, 0), -1, np.intp)

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the pods of live rows: rows of the pod table, shape (depth, rows), -1 below.

        ``depth`` is the greatest number of pods that one of the rows has. Not to be changed.
        """
        self._refresh()
        every = rows.size == self._block.shape[1] and bool((rows == np.arange(rows.size)).all())
        chosen = self._block if every else self._block[:, rows]
        depth = int((chosen >= 0).any(axis=1).sum())
        return chosen[:depth]

    def column(self, row: int) -> list[int]:
        """Return the pods of one live row: rows of the pod table, the most important first."""
        self._refresh()
        found: list[int] = self._block[:, row].tolist()
        return found[: found.index(-1)] if -1 in found else found

    def _refresh(self) -> None:
        nodes, journal = self._cache.nodes, self._cache.nodes.journal
        changes = journal.since(self._version) if self._version >= 0 else None
        self._version = journal.version
        if changes is not None and not changes.rows:
            return
        dirty = np.zeros(nodes.n + 1, np.bool_)
        if changes is None:
            dirty[:-1] = True
            self._block = np.full((0, nodes.n), -1, np.intp)
        else:
            self._grow(self._block.shape[0], nodes.n)
            if len(changes.rows) <= FEW:
                for row in changes.rows:
                    self._sort_one(row)
                return
            dirty[changes.rows] = True
        self._sort(dirty)

    def _sort_one(self, row: int) -> None:
        """Sort the pods of one row again."""
        cache = self._cache
        found = [cache.pod_row(uid) for uid in cache.nodes.pods_on(row)]
        pods = np.array([one for one in found if one is not None], np.intp)
        if pods.size > 1:
            pods = pods[np.lexsort(self._keys(pods)[::-1])]
        self._grow(pods.size, self._block.shape[1])
        self._block[:, row] = -1
        self._block[: pods.size, row] = pods

    def _sort(self, dirty: NDArray[np.bool_]) -> None:
        """Sort the pods of the dirty rows again; the last flag is for no node and is False."""
        pods = self._cache.pods
        node_of: NDArray[np.intp] = pods.node.values[: pods.n]
        chosen = np.flatnonzero(dirty[node_of])
        order = np.lexsort((*self._keys(chosen)[::-1], node_of[chosen]))
        chosen = chosen[order]
        node = node_of[chosen]
        first = np.flatnonzero(np.diff(node, prepend=-1))
        position = np.arange(node.size) - np.repeat(first, np.diff(first, append=node.size))
        if node.size:
            self._grow(int(position.max()) + 1, self._block.shape[1])
        self._block[:, dirty[:-1]] = -1
        self._block[position, node] = chosen

    def _grow(self, depth: int, width: int) -> None:
        had_depth, had_width = self._block.shape
        if depth <= had_depth and width <= had_width:
            return
        block = np.full((max(depth, had_depth), max(width, had_width)), -1, np.intp)
        block[:had_depth, :had_width] = self._block
        self._block = block
