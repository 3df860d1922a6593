"""Pods per topology domain for one constraint, over the nodes that the constraint looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import ROW, Domain, PodCounts
from policy_sched.cluster.tables import NodeTable
from policy_sched.model import PodInfo
from policy_sched.plugins.podtopologyspread.constraints import Constraint
from policy_sched.plugins.podtopologyspread.node_inclusion import Mask, NodeInclusion


@dataclass(frozen=True, slots=True)
class Included:
    """The rows that count for a constraint where not all do, and their domains.

    ``mask``: bool, shape (n,). ``rows``: the same as numbers; ``ids``: the domain of each.
    ``exists``: bool, shape (domain.count,): which domains have a row that counts.
    """

    mask: Mask
    rows: NDArray[np.intp]
    ids: NDArray[np.intp]
    exists: Mask


@dataclass(frozen=True, slots=True)
class Spread:
    """How the pods of one constraint are spread now.

    ``totals``: int64, shape (domain.count + 1,), pods by domain, a copy; the last is of nodes
    without the label. ``included``: the rows that count, None for all.
    """

    domain: Domain
    totals: NDArray[np.int64]
    included: Included | None


#: How many different sets of rows are kept.
KEPT: Final = 512


class SpreadCounter:
    """Counts for the pods of one cluster; sets of rows are kept until a node changes."""

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._table = table
        self._counts = counts
        self._nodes = NodeInclusion(table)
        self._version = -1
        self._numbers: dict[tuple[str, ...], int] = {(): 0}
        self._last: tuple[tuple[str, ...], int] = (), 0
        self._labelled: dict[int, Mask | None] = {}
        self._included: dict[tuple[object, ...], Included | None] = {}

    def domain(self, key: str) -> Domain:
        """Return the domains of a label as they are now."""
        return self._counts.domains.of(key)

    def labelled(self, keys: tuple[str, ...]) -> Mask | None:
        """Return the rows that have all of the labels; None if every node has them."""
        self._renew()
        number = self._number(keys)
        if number not in self._labelled:
            mask: Mask | None = None
            for key in keys:
                domain = self._counts.domains.of(key)
                if not domain.complete:
                    mask = domain.present if mask is None else mask & domain.present
            self._labelled[number] = mask
        return self._labelled[number]

    def _number(self, keys: tuple[str, ...]) -> int:
        """Return a number for labels: a pod of many constraints asks for each with all of them."""
        if keys is not self._last[0]:
            if len(self._numbers) >= KEPT:
                self._forget()
            self._last = keys, self._numbers.setdefault(keys, len(self._numbers))
        return self._last[1]

    def spread(self, pod: PodInfo, constraint: Constraint, keys: tuple[str, ...]) -> Spread:
        """Count by domain over the rows with all labels `keys` that the policies leave."""
        domain = self._counts.domains.of(constraint.spread.topology_key)
        counts = self._counts.selected.of(constraint.match)
        included = self._rows(pod, constraint, keys, domain)
        if included is None:
            return Spread(domain, counts.by(domain).copy(), None)
        by_row = counts.by(self._counts.domains.of(ROW))[included.rows]
        totals = np.bincount(included.ids, weights=by_row, minlength=domain.count + 1)
        return Spread(domain, totals.astype(np.int64), included)

    def by_row(self, constraint: Constraint) -> NDArray[np.int64]:
        """Return the pods that count on each row itself, shape (n,)."""
        return self._counts.selected.of(constraint.match).by(self._counts.domains.of(ROW))[:-1]

    def _rows(
        self, pod: PodInfo, constraint: Constraint, keys: tuple[str, ...], domain: Domain
    ) -> Included | None:
        self._renew()
        spread = constraint.spread
        by_affinity = spread.honor_affinity and (pod.node_selector or pod.node_affinity is not None)
        key = (
            domain.key,
            self._number(keys),
            (pod.node_selector_key, pod.node_affinity) if by_affinity else None,
            pod.tolerations if spread.honor_taints else None,
        )
        if key not in self._included:
            if len(self._included) >= KEPT:
                self._included.clear()
            mask = self.labelled(keys)
            if by_affinity:
                mask = _both(mask, self._nodes.affinity(pod))
            if spread.honor_taints:
                mask = _both(mask, self._nodes.taints(pod))
            self._included[key] = None if mask is None else _included(mask, domain)
        return self._included[key]

    def _renew(self) -> None:
        if self._version != self._table.static_version:
            self._version = self._table.static_version
            self._forget()

    def _forget(self) -> None:
        self._numbers = {(): 0}
        self._last = (), 0
        self._labelled.clear()
        self._included.clear()


def _included(mask: Mask, domain: Domain) -> Included:
    rows = np.flatnonzero(mask)
    ids = domain.ids[rows]
    exists = np.zeros(domain.count + 1, np.bool_)
    exists[ids] = True
    return Included(mask, rows, ids, exists[:-1])


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
