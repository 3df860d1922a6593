"""Pods per topology domain for one constraint, over the nodes that the constraint looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.domains import ROW, Domain
from policy_sched.cluster.node_table import NodeTable
from policy_sched.cluster.pod_counts import PodCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.node_inclusion import Mask, NodeInclusion
from policy_sched.plugins.topology_spread_constraints import Constraint


@dataclass(frozen=True, slots=True)
class Spread:
    """How the pods of one constraint are spread now.

    ``totals``: int64, shape (domain.count + 1,), pods by domain, a copy; the last is of nodes
    without the label. ``mask``: the rows that count, None for all.
    """

    domain: Domain
    totals: NDArray[np.int64]
    mask: Mask | None

    def domains(self) -> Mask | None:
        """Return which domains have a node that counts, shape (count,); None: all of them."""
        if self.mask is None:
            return None
        found = np.zeros(self.domain.count + 1, np.bool_)
        found[self.domain.ids[self.mask]] = True
        return found[:-1]


class SpreadCounter:
    """Counts for the pods of one cluster."""

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._counts = counts
        self._nodes = NodeInclusion(table)

    def domain(self, key: str) -> Domain:
        """Return the domains of a label as they are now."""
        return self._counts.domains.of(key)

    def labelled(self, constraints: Sequence[Constraint]) -> Mask | None:
        """Return the rows that have the labels of all constraints; None if every node has them."""
        mask: Mask | None = None
        for constraint in constraints:
            domain = self._counts.domains.of(constraint.spread.topology_key)
            if not domain.complete:
                mask = domain.present if mask is None else mask & domain.present
        return mask

    def spread(self, pod: PodInfo, constraint: Constraint, labelled: Mask | None) -> Spread:
        """Count by domain over the rows of `labelled` that the constraint's policies leave."""
        domain = self._counts.domains.of(constraint.spread.topology_key)
        counts = self._counts.selected.of(constraint.match)
        mask = labelled
        if constraint.spread.honor_affinity:
            mask = _both(mask, self._nodes.affinity(pod))
        if constraint.spread.honor_taints:
            mask = _both(mask, self._nodes.taints(pod))
        if mask is None:
            return Spread(domain, counts.by(domain).copy(), None)
        rows = np.flatnonzero(mask)
        by_row = counts.by(self._counts.domains.of(ROW))
        totals = np.bincount(
            domain.ids[rows], weights=by_row[rows], minlength=domain.count + 1
        ).astype(np.int64)
        return Spread(domain, totals, mask)

    def by_row(self, constraint: Constraint) -> NDArray[np.int64]:
        """Return the pods that count on each row itself, shape (n,)."""
        return self._counts.selected.of(constraint.match).by(self._counts.domains.of(ROW))[:-1]


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
