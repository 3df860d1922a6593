"""The pods of every node in an order of importance, kept up to date row by row.

Theory of operation: ``block`` has one column per row of the node table and in it the rows of the
pod table, the most important pod first. The journal says on which nodes pods came, went or
changed since; only their columns are sorted anew: a few one by one, many in one sort. What was read
of all pods is kept in blocks of the same shape, and read anew for the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster import tables
from policy_sched.cluster.cache import Cache
from policy_sched.lru import Lru

Keys: TypeAlias = Callable[[NDArray[np.intp]], tuple[NDArray[np.int64], ...]]
"""From rows of the pod table, shape (p,), to sort keys of the same shape, the deciding one first;
smaller numbers come first. They may read nothing but the pods' own columns."""
Read: TypeAlias = Callable[[NDArray[np.intp]], NDArray[Any]]
"""From rows of the pod table to something of each pod; see `PodRows.derived`."""

#: Bytes that blocks of columns may take together; those used last are kept.
KEPT_BYTES: Final = 64 * 1024 * 1024


class _Kept(msgspec.Struct):
    """What was read of all pods: a block of values, 0 where there is no pod.

    ``version``: of the journal then; the rows that changed since are read anew when it is used.
    """

    source: object
    values: NDArray[Any]
    version: int


class PodOrder:
    """Pods by node and importance. ``keys`` defines importance."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys
        self.pods = cache.pods
        self._version = -1
        # The journal's version after the last change of a column, and the rows that changed since
        # an earlier version, with the pods that are there now.
        self._changed = -1
        self._since: tuple[int, NDArray[np.intp], NDArray[np.intp]] | None = None
        self._block: NDArray[np.intp] = np.full((0, 0), -1, np.intp)
        self._depth = 0
        self._kept: Lru[Hashable, _Kept] = Lru(KEPT_BYTES, lambda kept: kept.values.nbytes)

    def of(self, rows: NDArray[np.intp]) -> OrderedPods:
        """Return the pods of live rows, each once: shape (depth, rows), -1 below.

        ``depth`` is the greatest number of pods that one of the rows has.
        """
        ordered = self.at(rows)
        if ordered.every:
            return ordered
        return OrderedPods(self, rows, int(ordered.there.any(axis=1).sum()))

    def at(self, rows: NDArray[np.intp]) -> OrderedPods:
        """Do as `of`; the depth may be greater, and nothing is read that is not used."""
        self._refresh()
        every = rows.size == self._block.shape[1] and bool((rows == np.arange(rows.size)).all())
        return OrderedPods(self, None if every else rows, self._depth)

    def every(self) -> OrderedPods:
        """Do as `of` for all rows of the node table; a row without a node has no pods."""
        self._refresh()
        return OrderedPods(self, None, self._depth)

    def column(self, row: int) -> list[int]:
        """Return the pods of one live row: rows of the pod table, the most important first."""
        self._refresh()
        pods: list[int] = self._block[:, row].tolist()
        return pods[: pods.index(-1)] if -1 in pods else pods

    @property
    def block(self) -> NDArray[np.intp]:
        """The pods of all rows as they were last looked at, shape (depth, n)."""
        return self._block[: self._depth]

    def derived(self, key: Hashable, source: object, read: Read | None) -> NDArray[Any] | None:
        """Return what is kept under a key, or is from now on, shape (depth, n), read-only.

        ``source``: what it is read from; of another source it is read anew. ``read``: None to get
        only what is kept and up to date.
        """
        kept = self._kept.get(key)
        if kept is None or kept.source is not source:
            if read is None:
                return None
            kept = _Kept(source, _read(read, self._block), self._version)
            self._kept.put(key, kept)
        shape = self._block.shape
        if kept.version < self._changed or kept.values.shape != shape:
            if read is None:
                return None
            if kept.values.shape != shape:
                kept.values = _grown(kept.values, shape, 0)
                self._kept.put(key, kept)  # which is larger now
            if self._since is None or self._since[0] != kept.version:
                self._since = kept.version, *self._changed_since(kept.version)
            kept.values[:, self._since[1]] = _read(read, self._since[2])
            kept.version = self._version
        values = kept.values[: self._depth]
        values.flags.writeable = False
        return values

    def _changed_since(self, version: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows that changed after a version, and their columns of the block."""
        changes = self._cache.nodes.journal.since(version)
        changed = range(self._block.shape[1]) if changes is None else changes.rows
        rows = np.array(changed, np.intp)
        rows = rows[rows < self._block.shape[1]]  # what came since the last look is not there
        return rows, self._block.take(rows, axis=1)

    def _refresh(self) -> None:
        nodes, journal = self._cache.nodes, self._cache.nodes.journal
        if self._version == journal.version:
            return
        changes = journal.since(self._version) if self._version >= 0 else None
        self._version = journal.version
        if changes is not None and changes.kind & ~tables.STATIC == 0:
            return
        self._changed, self._since = journal.version, None
        if changes is None:
            self._kept.clear()
            self._block = np.full((0, nodes.n), -1, np.intp)
            self._sort(np.arange(nodes.n))
        else:
            self._grow(self._block.shape[0], nodes.n)
            if len(changes.rows) <= thresholds.LOOP_ROWS:
                for row in changes.rows:
                    self._sort_one(row)
            else:
                self._sort(np.array(changes.rows, np.intp))
        depth = self._block.shape[0]
        while depth and self._block[depth - 1].max(initial=-1) < 0:
            depth -= 1
        self._depth = depth

    def _sort_one(self, row: int) -> None:
        """Sort the pods of one row again."""
        cache = self._cache
        pod_rows = [cache.pod_row(uid) for uid in cache.nodes.pods_on(row)]
        pods = np.array([pod_row for pod_row in pod_rows if pod_row is not None], np.intp)
        if pods.size > 1:
            pods = pods[np.lexsort(self._keys(pods)[::-1])]
        self._grow(pods.size, self._block.shape[1])
        self._block[:, row] = -1
        self._block[: pods.size, row] = pods

    def _sort(self, rows: NDArray[np.intp]) -> None:
        """Sort the pods of rows again."""
        pods = self.pods
        node_of: NDArray[np.intp] = pods.node.values[: pods.n]
        dirty = np.zeros(self._block.shape[1] + 1, np.bool_)  # the last one is for no node
        dirty[rows] = True
        chosen = dirty[node_of].nonzero()[0]
        chosen = chosen[np.lexsort((*self._keys(chosen)[::-1], node_of[chosen]))]
        node = node_of[chosen]
        is_first = np.ones(node.size, np.bool_)
        np.not_equal(node[1:], node[:-1], out=is_first[1:])
        first = is_first.nonzero()[0]
        position = np.arange(node.size) - first[is_first.cumsum() - 1]
        if node.size:
            self._grow(int(position.max()) + 1, self._block.shape[1])
        self._block[:, rows] = -1
        self._block[position, node] = chosen

    def _grow(self, depth: int, width: int) -> None:
        had_depth, had_width = self._block.shape
        if depth <= had_depth and width <= had_width:
            return
        self._block = _grown(self._block, (max(depth, had_depth), max(width, had_width)), -1)


class OrderedPods(tables.PodRows):
    """The pods of rows of an order, shape (depth, m); ``every``: these are all rows."""

    def __init__(self, order: PodOrder, nodes: NDArray[np.intp] | None, depth: int) -> None:
        super().__init__(order.pods)
        self.every = nodes is None
        self.depth = depth
        self._order = order
        self._nodes = nodes

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the pod table."""
        return self._part(self._order.block)

    def of(self, key: tables.Key) -> NDArray[Any]:
        """Return a column of the pod table at the rows."""
        values = self._columns.get(key)
        if values is None:
            column = self.pods.lookup(key)
            if column.family.unit == tables.CODE_UNIT:  # codes of texts may be given to others
                return super().of(key)
            values = self._columns[key] = self.derived(key, column, lambda r: column.values[r])
        return values

    def derived(self, key: Hashable, source: object, read: Read) -> NDArray[Any]:
        """Return what the order keeps; for a few rows, what it keeps already."""
        block = self._order.block
        many = self._nodes is None or self._nodes.size > thresholds.LOOP_ROWS
        if self._nodes is None or (many and 4 * block.nbytes <= KEPT_BYTES):
            values = self._order.derived(key, source, read)
        else:
            values = self._order.derived(key, source, None)
        return super().derived(key, source, read) if values is None else self._part(values)

    def _part(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return what a block of all rows has of these."""
        lines = block[: self.depth]
        return lines if self._nodes is None else lines.take(self._nodes, axis=1)


def _read(read: Read, block: NDArray[np.intp]) -> NDArray[Any]:
    values = read(block)
    values[block < 0] = 0
    return values


def _grown(block: NDArray[Any], shape: tuple[int, int], fill: int) -> NDArray[Any]:
    grown = np.full(shape, fill, block.dtype)
    grown[: block.shape[0], : block.shape[1]] = block
    return grown
