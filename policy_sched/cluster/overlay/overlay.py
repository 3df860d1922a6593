"""Pods that hypothetically left or came, in the tables for the time of a ``with`` block.

Theory of operation. `WhatIf` removes and adds pods one by one: both tables, ``pods_on`` and the pod
counts say what they would say. `WhatIfRows` removes a block of pods, one column of it per node, and
puts them back line by line; each step is a few operations on arrays. `WhatIfGuests` adds pods to
many nodes at once, also inside a WhatIfRows. The latter two change the node table's dynamic columns
and ``pods_on`` only: plugins that read the pod table or counts are evaluated with WhatIf, node by
node. The journal is not told, so caches that follow it do not see hypothetical pods. On leaving,
every value and mapping is the one from before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import MAX_SUM, NO_NODE, Column
from policy_sched.model import MAX_UNITS, PodInfo


class WhatIf:
    """A context in which pods can be taken off live rows and put on them.

    Nothing else may change the cache while the context is open.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._log: list[tuple[int, int, PodInfo]] = []
        self._lent: dict[int, dict[str, PodInfo]] = {}
        self._guests: dict[str, int] = {}
        self._ports: dict[int, set[int]] = {}
        self._supposed = 0

    def __enter__(self) -> Self:
        self._supposed = len(self._cache.nodes.supposed)
        self._cache.nodes.supposing += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()
        self._cache.nodes.supposing -= 1

    def remove(self, row: int, pod: PodInfo) -> None:
        """Take a pod off a row: one that runs there, or one that was added here before."""
        self._pods(row).pop(pod.uid)
        self._count(row, pod, -1)
        self._note(row, -1, pod)

    def add(self, row: int, pod: PodInfo) -> None:
        """Put a pod on a row: one that was removed here before, or one that runs nowhere."""
        self._pods(row)[pod.uid] = pod
        self._count(row, pod, 1)
        self._note(row, 1, pod)

    def _note(self, row: int, sign: int, pod: PodInfo) -> None:
        self._log.append((row, sign, pod))
        self._cache.nodes.supposed.append((row, sign, pod))

    def undo(self) -> None:
        """Bring everything back to what it was."""
        for row, sign, pod in reversed(self._log):
            self._count(row, pod, -sign)
        self._log.clear()
        del self._cache.nodes.supposed[self._supposed :]
        for pod_row in self._guests.values():
            self._cache.pods.remove(pod_row)
        self._guests.clear()
        usage = self._cache.nodes.usage
        for row in self._ports:
            usage.used_ports.view[row] = usage.port_set(usage.port_counts(row))
        self._ports.clear()
        for row, pods in self._lent.items():
            self._cache.nodes.swap_pods(row, pods)
        self._lent.clear()

    def _pods(self, row: int) -> dict[str, PodInfo]:
        nodes = self._cache.nodes
        if row not in self._lent:
            copy = dict(nodes.pods_on(row))
            self._lent[row] = nodes.swap_pods(row, copy)
            return copy
        pods = nodes.pods_on(row)
        assert isinstance(pods, dict), "rows are not tried out in two ways at once"
        return pods

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        cache = self._cache
        if pod.host_ports and row not in self._ports:
            self._ports[row] = set(cache.nodes.usage.port_counts(row))
        if sign > 0:
            cache.nodes.usage.count(row, pod, 1)
            cache.counts.add(row, pod)
        else:
            cache.nodes.usage.count(row, pod, -1)
            cache.counts.remove(row, pod)
        if pod.host_ports:
            usage, held = cache.nodes.usage, self._ports[row]
            usage.move_ports(held, pod, sign)
            usage.used_ports.view[row] = usage.port_set(held)
        cache.nodes.forget_totals()
        pod_row = cache.pod_row(pod.uid)
        if pod_row is None:
            pod_row = self._guests.get(pod.uid)
        if pod_row is None:
            self._guests[pod.uid] = cache.pods.add(pod, row)
        else:
            cache.pods.move(pod_row, row if sign > 0 else NO_NODE)


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
        """Return what ``NodeTable.pods_on`` returns meanwhile."""
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
        """Return what ``NodeTable.pods_on`` returns meanwhile."""
        nodes = self._nodes
        nodes.hypothesis = self._before
        pods = nodes.pods_on(row)
        nodes.hypothesis = self._pods_on
        guests = self._guests.get(row, ())
        return {**pods, **{guest.uid: guest for guest in guests}} if guests else pods


def _sum(amounts: Iterable[int]) -> int:
    """Return the sum of the pods' requests, as a column can hold it."""
    return min(sum(amounts), MAX_UNITS)
