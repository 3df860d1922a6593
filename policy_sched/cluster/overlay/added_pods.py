"""What if pods came to many nodes at once: tried out on columns, then undone exactly.

Theory of operation: as in what_if_rows, told the truth are the node table's dynamic columns and
``pods_on``; the pod table and the counts by selector are not changed. It may stand inside a
WhatIfRows: what is gone there stays gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import MAX_SUM, Column
from policy_sched.model import MAX_UNITS, PodInfo


class WhatIfGuests:
    """A context in which pods that run nowhere are on live rows.

    ``guests``: by row, the pods that come. Nothing else may change the cache meanwhile.
    """

    def __init__(self, cache: Cache, guests: Mapping[int, Sequence[PodInfo]]) -> None:
        self._nodes = cache.nodes
        self._guests = guests
        self.rows: NDArray[np.intp] = np.array(list(guests), np.intp)
        """The rows with guests, in the mapping's order, shape (k,)."""
        self._changes = list(self._amounts())
        self._ports = any(pod.host_ports for pods in guests.values() for pod in pods)
        self._saved: list[NDArray[np.int64]] = []
        self._saved_ports: NDArray[np.intp] = np.empty(0, np.intp)
        self._before: Callable[[int], Mapping[str, PodInfo]] | None = None

    def __enter__(self) -> Self:
        nodes = self._nodes
        for column, amounts in self._changes:
            before = column.values[self.rows]
            self._saved.append(before)
            column.values[self.rows] = np.clip(before + amounts, -MAX_SUM, MAX_SUM)
        if self._ports:
            self._saved_ports = nodes.usage.used_ports.values[self.rows]
            self._add_ports()
        self._before = nodes.hypothesis
        nodes.hypothesis = self._pods_on
        nodes.forget_totals()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        nodes = self._nodes
        for (column, _), before in zip(self._changes, self._saved, strict=True):
            column.values[self.rows] = before
        self._saved.clear()
        if self._ports:
            nodes.usage.used_ports.values[self.rows] = self._saved_ports
        nodes.hypothesis = self._before
        nodes.forget_totals()

    def _amounts(self) -> list[tuple[Column, NDArray[np.int64]]]:
        """Return the columns that the guests count in, and what they add, shape (k,)."""
        usage = self._nodes.usage
        groups = self._guests.values()
        counts = np.array([len(pods) for pods in groups], np.int64)
        found = [(usage.pod_count, counts)]
        for resource, (requested, free, _) in usage.amounts.items():
            sums = [_sum(p.requests.get(resource, 0) for p in pods) for pods in groups]
            if any(sums):
                amounts = np.array(sums, np.int64)
                found += [(requested, amounts), (free, -amounts)]
        for resource, column in usage.non_zero.items():
            sums = [_sum(p.non_zero_added.get(resource, 0) for p in pods) for pods in groups]
            if any(sums):
                found.append((column, np.array(sums, np.int64)))
        return found

    def _add_ports(self) -> None:
        usage = self._nodes.usage
        for row, pods in self._guests.items():
            wanted = {usage.port_sets.item_id(port) for pod in pods for port in pod.host_ports}
            if wanted:
                held = usage.port_sets.sets[usage.used_ports.view[row]]
                ids = sorted(wanted.union(held))
                usage.used_ports.view[row] = usage.port_sets.set_of_ids(tuple(ids))

    def _pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Return what ``NodeTable.pods_on`` says meanwhile."""
        nodes = self._nodes
        nodes.hypothesis = self._before
        pods = nodes.pods_on(row)
        nodes.hypothesis = self._pods_on
        guests = self._guests.get(row, ())
        return {**pods, **{guest.uid: guest for guest in guests}} if guests else pods


def _sum(amounts: Iterable[int]) -> int:
    """Return the sum of what guests ask for, as a column can hold it."""
    return min(sum(amounts), MAX_UNITS)
