"""Counts of the pods on each node that meet a condition, updated row by row.

Theory of operation. A condition is a rule's function of one pod and of some values of the scheduled
pod; there is one count per condition and values. It starts from the pod table: equalities with
texts select pods by column, and the function is called for the remaining pods. Then the node
table's journal names the rows whose pods changed, and only those rows are counted again. A count
that is too far behind starts anew. The least recently used counts are evicted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.counts import Domain, Domains
from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.model import PodInfo

#: Counts of one program that are kept.
LIMIT: Final = 512
#: Beyond this many changed rows a count that can choose pods by column starts anew.
FEW_ROWS: Final = 128

Numbers = npt.NDArray[np.int64]
Test = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition: ``equal`` are columns of the pod table with the text that each must equal.

    That is a text, or the position of a text among the values of the scheduled pod.
    """

    equal: tuple[tuple[tuple[str, ...], str | int], ...]


class IncrementalCount:
    """The number of pods on each row that meet a condition."""

    __slots__ = ("_domains", "_totals", "by_row", "total", "version")

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._totals: dict[str, tuple[Domain, Numbers]] = {}
        self.by_row: Numbers = np.zeros(0, np.int64)
        self.total = 0
        self.version = -1

    def rows(self, rows: slice | npt.NDArray[np.intp]) -> Numbers:
        """Return the numbers of rows as a read-only array."""
        found = self.by_row[rows]
        found.flags.writeable = False
        return found

    def domain_rows(self, key: str, rows: slice | npt.NDArray[np.intp]) -> Numbers:
        """Return for each row the number of its domain's pods; 0 where it has no such label."""
        domain = self._domains.of(key)
        return self._by_domain(domain).take(domain.ids[rows])

    def domain_total(self, key: str, row: int) -> int:
        """Return the number of pods in the domain of one row."""
        domain = self._domains.of(key)
        return int(self._by_domain(domain)[domain.id_view[row]])

    def _by_domain(self, domain: Domain) -> Numbers:
        known = self._totals.get(domain.key)
        if known is not None and known[0] is domain:
            return known[1]
        totals = np.zeros(domain.count + 1, np.int64)
        np.add.at(totals, domain.ids, self.by_row)
        totals[domain.count] = 0
        self._totals[domain.key] = domain, totals
        return totals

    def start(self, by_row: Numbers) -> None:
        """Set the numbers of all rows."""
        self.by_row = by_row
        self.total = int(by_row.sum())
        self._totals.clear()

    def put(self, row: int, number: int) -> None:
        """Set the number of one row."""
        change = number - self.by_row.item(row)
        if not change:
            return
        self.by_row[row] = number
        self.total += change
        for domain, totals in self._totals.values():
            place = domain.id_view[row]
            if place < domain.count:
                totals[place] += change


class IncrementalCounts:
    """The counts over one cluster's tables. Without ``pods`` they start node by node."""

    def __init__(self, nodes: NodeTable, pods: PodTable | None) -> None:
        self._nodes = nodes
        self._pods = pods
        self._domains = Domains(nodes)
        self._kept: OrderedDict[tuple[Condition, tuple[object, ...]], IncrementalCount] = (
            OrderedDict()
        )

    def of(self, condition: Condition, test: Test, values: tuple[Any, ...]) -> IncrementalCount:
        """Return the count of a condition for some values, up to date.

        ``test(pod, *values)`` tells whether a pod counts.
        """
        key = condition, tuple(map(_hashable, values))
        count = self._kept.get(key)
        if count is None:
            count = self._kept[key] = self._fresh(
                IncrementalCount(self._domains), condition, test, values
            )
            if len(self._kept) > LIMIT:
                self._kept.popitem(last=False)
        elif count.version != self._nodes.journal.version:
            self._follow(count, condition, test, values)
        self._kept.move_to_end(key)
        return count

    def _follow(
        self, count: IncrementalCount, condition: Condition, test: Test, values: tuple[Any, ...]
    ) -> None:
        nodes = self._nodes
        changes = nodes.journal.since(count.version)
        if (
            changes is None
            or nodes.n != len(count.by_row)
            or (condition.equal and len(changes.rows) > FEW_ROWS)
        ):
            self._fresh(count, condition, test, values)
            return
        for row in changes.rows:
            count.put(row, sum(1 for p in nodes.pods_on(row).values() if test(p, *values)))
        count.version = nodes.journal.version

    def _fresh(
        self, count: IncrementalCount, condition: Condition, test: Test, values: tuple[Any, ...]
    ) -> IncrementalCount:
        nodes = self._nodes
        if self._pods is not None:
            found = self._chosen(self._pods, condition, test, values)
            numbers = np.bincount(found, minlength=nodes.n).astype(np.int64)
        else:
            numbers = np.zeros(nodes.n, np.int64)
            for row in nodes.row_of.values():
                numbers[row] = sum(1 for p in nodes.pods_on(row).values() if test(p, *values))
        count.start(numbers)
        count.version = nodes.journal.version
        return count

    def _chosen(
        self, pods: PodTable, condition: Condition, test: Test, values: tuple[Any, ...]
    ) -> npt.NDArray[np.intp]:
        """Return the node row of each pod that counts."""
        nodes: npt.NDArray[np.intp] = pods.node.values[: pods.n]
        chosen = nodes >= 0
        for column, wanted in condition.equal:
            codes = pods.lookup(column).values[: pods.n]  # first: it may give new codes
            text = wanted if isinstance(wanted, str) else values[wanted]
            chosen &= codes == pods.strings.find(text)
        places = np.flatnonzero(chosen)
        passed = _passing((pods.infos[i] for i in places.tolist()), test, values)
        return nodes[places[np.array(passed, np.bool_)]]


def _passing(infos: Iterable[PodInfo | None], test: Test, values: tuple[Any, ...]) -> list[bool]:
    return [info is not None and bool(test(info, *values)) for info in infos]


def _hashable(value: Any) -> Any:
    """Return a hashable key for a value: lists and mappings are equal to no other type's."""
    if isinstance(value, Mapping):
        return Mapping, frozenset((key, _hashable(one)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(_hashable, value))
    return value
