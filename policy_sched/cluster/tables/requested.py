"""What the pods on each node take: the dynamic columns, kept up to date pod by pod.

Theory of operation: ``requested`` and ``free`` of a resource come into being together and are
written together; ``free`` is allocatable - requested. A resource that is never read costs no more
than its name, which is forgotten some time after the last pod that requests it has left.
Sums are exact as long as the amounts on a node that are not small are MAX_UNITS in all at most;
beyond that they count as MAX_UNITS. Host ports are counted per node, because two bound pods may
hold the same one; the column holds the set of those counted. Only live rows are kept: the pods of a
node that is not known are nowhere in these columns, and ``refill`` counts them when the node comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from policy_sched.cluster.tables.column import Column
from policy_sched.cluster.tables.interning import Sets
from policy_sched.cluster.tables.schema import Key
from policy_sched.model import MAX_UNITS, HostPort, PodInfo

SMALL: Final = 2**40 - 1
"""Amounts up to it are simply added: 65,536 of them and MAX_UNITS are no more than MAX_SUM."""

MANY_RESOURCES: Final = 4096
"""Number of resources without columns from which on those are looked for that no pod requests."""


class Usage:
    """The dynamic columns of the node table, and the arithmetic of a pod coming or going.

    ``amounts[resource]`` is (requested, free, allocatable) and ``non_zero[resource]`` the column
    of that name; ``rewire`` must be called after columns have grown or were given up.
    """

    __slots__ = (
        "_due",
        "_large",
        "_non_zero_views",
        "_pairs",
        "_pod_count",
        "_ports",
        "_uncounted",
        "_uncounted_non_zero",
        "amounts",
        "many",
        "non_zero",
        "pod_count",
        "port_sets",
        "used_ports",
    )

    def __init__(self, pod_count: Column, used_ports: Column, port_sets: Sets[HostPort]) -> None:
        self.amounts: dict[str, tuple[Column, Column, Column]] = {}
        self.non_zero: dict[str, Column] = {}
        self.pod_count = pod_count
        self.used_ports = used_ports
        self.port_sets = port_sets
        self._ports: dict[int, dict[HostPort, int]] = {}
        self._large: dict[tuple[int, str, str], int] = {}
        """By row, column and resource the exact sum of the amounts that are not small."""
        self._uncounted: set[str] = set()
        """Resources without columns that pods on live rows request: their columns must be filled.

        A pod may name thousands of resources; those of no other pod are not looked for anywhere.
        """
        self._uncounted_non_zero: set[str] = set()
        self.many = self._due = MANY_RESOURCES
        self.rewire()

    def forget(self, idle: set[Key]) -> None:
        """Give up idle columns.

        The amounts of a resource go together or not at all: what has to stay leaves ``idle``.
        """
        for resource in list(self.amounts):
            pair = {("requested", resource), ("free", resource)}
            if pair <= idle:
                del self.amounts[resource]
                self._uncounted.add(resource)
                self._forget_large("requested", resource)
            else:
                idle -= {*pair, ("allocatable", resource)}
        for resource in [r for r in self.non_zero if ("nonZeroRequested", r) in idle]:
            del self.non_zero[resource]
            self._uncounted_non_zero.add(resource)
            self._forget_large("nonZeroRequested", resource)

    def tidy(self, pods: Iterable[PodInfo]) -> None:
        """Forget the resources that none of the pods on live rows requests, if there are many."""
        uncounted, non_zero = self._uncounted, self._uncounted_non_zero
        if len(uncounted) + len(non_zero) < self._due:
            return
        requested: set[str] = set()
        added: set[str] = set()
        for info in pods:
            requested.update(info.requests)
            added.update(info.non_zero_added)
        uncounted &= requested
        non_zero &= added
        self._due = max(self.many, 2 * (len(uncounted) + len(non_zero)))

    def rewire(self) -> None:
        """Take the columns' present memory for the hot path."""
        self._pod_count = self.pod_count.view
        self._pairs = {r: (c[0].view, c[1].view) for r, c in self.amounts.items()}
        self._non_zero_views = {r: c.view for r, c in self.non_zero.items()}

    def count(self, row: int, info: PodInfo, sign: int) -> None:
        """Count a pod on a live row (``sign`` 1), or take that very pod away (-1)."""
        pairs = self._pairs
        for resource, amount in info.requests.items():
            pair = pairs.get(resource)
            if pair is None:
                self._uncounted.add(resource)
            else:
                change = amount * sign
                if amount > SMALL:
                    change = self._change((row, "requested", resource), change)
                requested, free = pair
                requested[row] += change
                free[row] -= change
        views = self._non_zero_views
        for resource, amount in info.non_zero_added.items():
            view = views.get(resource)
            if view is None:
                self._uncounted_non_zero.add(resource)
            else:
                change = amount * sign
                if amount > SMALL:
                    change = self._change((row, "nonZeroRequested", resource), change)
                view[row] += change
        self._pod_count[row] += sign
        if info.host_ports:
            self._count_ports(row, info.host_ports, sign)

    def _change(self, place: tuple[int, str, str], amount: int) -> int:
        """Count an amount that is not small; return by how much the column changes."""
        before = self._large.get(place, 0)
        after = self._large[place] = before + amount
        if not after:
            del self._large[place]
        return min(after, MAX_UNITS) - min(before, MAX_UNITS)

    def _forget_large(self, column: str, resource: str) -> None:
        if not self._large:
            return
        self._large = {p: n for p, n in self._large.items() if p[1:] != (column, resource)}

    def refill(self, row: int, infos: Iterable[PodInfo]) -> None:
        """Set the row of a node that has just come to what its pods take."""
        for _, free, allocatable in self.amounts.values():
            free.view[row] = allocatable.view[row]
        for info in infos:
            self.count(row, info, 1)

    def refresh_free(self, row: int) -> bool:
        """Work out ``free`` anew for new allocatable amounts; return whether it changed."""
        changed = False
        for requested, free, allocatable in self.amounts.values():
            value = allocatable.view[row] - requested.view[row]
            if free.view[row] != value:
                free.view[row] = value
                changed = True
        return changed

    def counts(self, resource: str, *, non_zero: bool) -> bool:
        """Return whether a column of a resource is there, or pods on live rows request it."""
        if non_zero:
            return resource in self.non_zero or resource in self._uncounted_non_zero
        return resource in self.amounts or resource in self._uncounted

    def add_amounts(
        self,
        resource: str,
        columns: tuple[Column, Column, Column],
        pods: Iterable[tuple[int, Mapping[str, PodInfo]]],
    ) -> None:
        """Add the new columns of a resource, filled from the pods of every live row."""
        requested, free, allocatable = self.amounts[resource] = columns
        self._pairs[resource] = requested.view, free.view
        if resource in self._uncounted:
            self._uncounted.remove(resource)
            for row, infos in pods:
                for info in infos.values():
                    amount = info.requests.get(resource, 0)
                    if amount > SMALL:
                        amount = self._change((row, "requested", resource), amount)
                    requested.view[row] += amount
        free.values[:] = allocatable.values - requested.values

    def add_non_zero(
        self, resource: str, column: Column, pods: Iterable[tuple[int, Mapping[str, PodInfo]]]
    ) -> None:
        """Add the new nonZeroRequested column of a resource, filled likewise."""
        self.non_zero[resource] = column
        view = self._non_zero_views[resource] = column.view
        if resource not in self._uncounted_non_zero:
            return
        self._uncounted_non_zero.remove(resource)
        for row, infos in pods:
            for info in infos.values():
                amount = info.non_zero_added.get(resource, 0)
                if amount > SMALL:
                    amount = self._change((row, "nonZeroRequested", resource), amount)
                view[row] += amount

    def forget_row(self, row: int) -> None:
        """Drop the counts outside the columns of a row whose node was removed."""
        self._ports.pop(row, None)
        if self._large:
            self._large = {p: n for p, n in self._large.items() if p[0] != row}

    def port_counts(self, row: int) -> dict[HostPort, int]:
        """Return how many of a row's pods hold each port."""
        return dict(self._ports.get(row, ()))

    def large_rows(self) -> set[int]:
        """Return the rows with amounts that are not small."""
        return {row for row, _, _ in self._large} if self._large else set()

    def _count_ports(self, row: int, ports: Iterable[HostPort], by: int) -> None:
        counts = self._ports.setdefault(row, {})
        for port in ports:
            counts[port] = counts.get(port, 0) + by
            if not counts[port]:
                del counts[port]
        self.used_ports.view[row] = self.port_sets.set_id(tuple(sorted(counts)))
        if not counts:
            del self._ports[row]


def total(amounts: Iterable[int]) -> int:
    """Return the sum of the amounts of a node's pods as the columns have it."""
    small = large = 0
    for amount in amounts:
        if amount > SMALL:
            large += amount
        else:
            small += amount
    return small + min(large, MAX_UNITS)
