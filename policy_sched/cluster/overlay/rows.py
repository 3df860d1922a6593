"""What if pods went from many nodes at once: tried out on columns, then undone exactly.

Theory of operation: a block of pods, one column of it per node, is taken off all nodes and put
back pod by pod; each step is a few operations on arrays, however many nodes there are. Told the
truth are the node table's dynamic columns and ``pods_on``. The pod table and the counts by
selector are not changed: plugins that read those are evaluated with WhatIf, node by node. On
leaving, the columns get the values back that were saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import Column
from policy_sched.model import PodInfo

#: From this share of all rows on it is cheaper to write all of them.
DENSE: Final = 0.1

Places: TypeAlias = NDArray[np.intp] | None
"""Places in the list of rows, shape (k,), or None for all of them."""


class WhatIfRows:
    """A context in which pods can be taken off and put back on many rows.

    ``rows``: live rows, intp, shape (m,), each once. ``pods``: rows of the pod table, intp, shape
    (depth, m): column i holds pods that run on ``rows[i]``, -1 where there is none. Nothing else
    may change the cache while the context is open.
    """

    def __init__(self, cache: Cache, rows: NDArray[np.intp], pods: NDArray[np.intp]) -> None:
        self._nodes = cache.nodes
        self._table = cache.pods
        self.rows = rows
        self.pods = pods
        self._here = pods >= 0
        self.whole = rows.size == self._nodes.n and bool((rows == np.arange(rows.size)).all())
        """Whether the rows are all rows of the table, in order."""
        self._where = slice(0, rows.size) if self.whole else rows
        self._columns = list(self._dynamic_columns())
        self._saved: list[tuple[Column, NDArray[np.int64]]] = []
        self._port_steps = self._steps_with_ports()
        self._ports: dict[int, set[int]] = {}
        self._place_of: dict[int, int] = {}

    def __enter__(self) -> Self:
        kept = [column for column, _ in self._columns]
        if self._port_steps:
            kept.append(self._nodes.usage.used_ports)
        self._saved = [(column, column.values[self.rows]) for column in kept]
        self._nodes.hypothesis = self._pods_on
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for column, values in self._saved:
            column.values[self.rows] = values
        self._nodes.hypothesis = None
        self._nodes.forget_totals()

    def remove_all(self) -> None:
        """Take every pod of the block off its node."""
        for column, amounts in self._columns:
            column.values[self._where] -= amounts.sum(axis=0)
        for step, places in self._port_steps.items():
            self._count_ports(step, places, -1)
        self._here[:] = False
        self._nodes.forget_totals()

    def put_back(self, step: int, places: Places = None) -> None:
        """Put the pods of one line of the block back, at some places or all."""
        self._shift(step, places, 1)

    def remove(self, step: int, places: Places = None) -> None:
        """Take the pods of one line of the block off again, at some places or all."""
        self._shift(step, places, -1)

    def _shift(self, step: int, places: Places, sign: int) -> None:
        here = self.pods[step] >= 0 if sign > 0 else np.zeros(self.rows.size, np.bool_)
        if places is None:
            for column, amounts in self._columns:
                column.values[self._where] += amounts[step] * sign
            self._here[step] = here
        elif self.whole and places.size >= DENSE * self.rows.size:
            times = np.zeros(self.rows.size, np.int64)
            times[places] = sign
            for column, amounts in self._columns:
                column.values[self._where] += amounts[step] * times
            self._here[step, places] = here[places]
        else:
            rows = self.rows[places]
            for column, amounts in self._columns:
                column.values[rows] += amounts[step, places] * sign
            self._here[step, places] = here[places]
        if step in self._port_steps:
            holders = self._port_steps[step]
            self._count_ports(
                step, holders if places is None else np.intersect1d(holders, places), sign
            )
        self._nodes.forget_totals()

    @staticmethod
    def reads(cache: Cache) -> list[tuple[str, str]]:
        """Return the columns of the table of pods that are read, which may have to be filled."""
        usage = cache.nodes.usage
        requests = [("request", resource) for resource in usage.amounts]
        return requests + [("nonZeroAdded", resource) for resource in usage.non_zero]

    def _dynamic_columns(self) -> list[tuple[Column, NDArray[np.int64]]]:
        """Return the columns that these pods count in, and what each of them adds there."""
        usage = self._nodes.usage
        found: list[tuple[Column, NDArray[np.int64]]] = []
        for resource, (requested, free, _) in usage.amounts.items():
            amounts = self._amounts(("request", resource))
            if amounts is not None:
                found += [(requested, amounts), (free, -amounts)]
        for resource, column in usage.non_zero.items():
            amounts = self._amounts(("nonZeroAdded", resource))
            if amounts is not None:
                found.append((column, amounts))
        found.append((usage.pod_count, (self.pods >= 0).astype(np.int64)))
        return found

    def _amounts(self, key: tuple[str, str]) -> NDArray[np.int64] | None:
        """Return a number of each pod, 0 where there is none; None if all are 0."""
        amounts: NDArray[np.int64] = self._table.lookup(key).values[self.pods]
        amounts[~self._here] = 0
        return amounts if amounts.any() else None

    def _steps_with_ports(self) -> dict[int, NDArray[np.intp]]:
        """Return by line of the block the places whose pod holds host ports."""
        if not self._nodes.usage.used_ports.values[self.rows].any():
            return {}
        holds = self._table.lookup(("hostPorts",)).values[self.pods] & self._here
        return {int(k): np.flatnonzero(holds[k]) for k in np.flatnonzero(holds.any(axis=1))}

    def _count_ports(self, step: int, places: NDArray[np.intp], sign: int) -> None:
        usage = self._nodes.usage
        for place in places.tolist():
            row = self.rows.item(place)
            held = self._ports.get(row)
            if held is None:
                held = self._ports[row] = set(usage.port_counts(row))
            usage.move_ports(held, self._pod(step, place), sign)
            usage.used_ports.view[row] = usage.port_set(held)

    def _pod(self, step: int, place: int) -> PodInfo:
        pod = self._table.infos[self.pods.item(step, place)]
        assert pod is not None, "the block holds pods that run"
        return pod

    def _pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Return what ``NodeTable.pods_on`` says meanwhile."""
        nodes = self._nodes
        if not self._place_of:
            self._place_of = {row: place for place, row in enumerate(self.rows.tolist())}
        nodes.hypothesis = None
        pods = nodes.pods_on(row)
        nodes.hypothesis = self._pods_on
        place = self._place_of.get(row)
        if place is None:
            return pods
        gone = {
            self._pod(int(step), place).uid
            for step in np.flatnonzero((self.pods[:, place] >= 0) & ~self._here[:, place])
        }
        return {uid: pod for uid, pod in pods.items() if uid not in gone}
