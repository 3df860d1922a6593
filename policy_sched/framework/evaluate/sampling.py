"""Sample: how kube-scheduler stops looking for nodes once it has found enough of them.

Looking at all nodes is the default here, for it costs nothing: nodes are columns, and all of
them are filtered and scored anyway. A sample gives kube-scheduler's decisions,
which depend on it. Theory of operation: nodes are taken from where the last pod's search ended,
in kube-scheduler's order (a node of each zone in turn), until enough of them are feasible; the
others count as not looked at. kube-scheduler looks in parallel and may stop some nodes later;
this is what it does with parallelism 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework.evaluate import results
from policy_sched.framework.evaluate.views import FEASIBLE, NOT_ASKED, OUTSIDE
from policy_sched.framework.runtime import Percentage
from policy_sched.model import ZONE

ADAPTIVE: Final = "adaptive"

#: Fewer nodes than this are all looked at, and this many feasible ones are always looked for.
AT_LEAST: Final = 100
#: The adaptive percentage never falls below this.
LOWEST: Final = 5

REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"


def looks_at_all(percentage: Percentage) -> bool:
    """Return whether a percentage means that no node is left out."""
    return percentage in (0, 100)


def enough(percentage: Percentage, nodes: int) -> int:
    """Return how many feasible nodes are enough (numFeasibleNodesToFind in schedule_one.go)."""
    if nodes < AT_LEAST:
        return nodes
    share = max(50 - nodes // 125, LOWEST) if percentage == ADAPTIVE else percentage
    return max(nodes * share // 100, AT_LEAST)


class Rotation:
    """Where the next search begins, in places of kube-scheduler's order; all profiles share it."""

    def __init__(self) -> None:
        self.start = 0


class Sample:
    """Leaves feasible rows out once there are enough.

    ``any_will_do``: no plugin scores, so the first feasible node is enough.
    """

    def __init__(
        self,
        table: NodeTable,
        percentage: Percentage,
        rotation: Rotation,
        *,
        any_will_do: bool = False,
    ) -> None:
        self._table = table
        self._percentage: Percentage = percentage
        self._rotation = rotation
        self.any_will_do = any_will_do
        self._order = np.empty(0, np.intp)
        self._version = -1

    def of(self, filtering: results.FilteredNodes) -> results.FilteredNodes:
        """Return a copy that stops when enough feasible nodes were found."""
        order = self._in_order()
        order = order[filtering.first[order] != OUTSIDE]
        if not order.size:
            return filtering
        start = self._rotation.start
        turned = np.roll(order, -(start % order.size))
        wanted = 1 if self.any_will_do else enough(self._percentage, order.size)
        feasible = np.flatnonzero(filtering.first[turned] == FEASIBLE)
        # As upstream, the search stops at the feasible node after the last wanted one.
        end = feasible.item(wanted) if feasible.size > wanted else order.size
        self._rotation.start = (start + end) % self._table.live_count
        return filtering if end == order.size else _without(filtering, turned[end:])

    def _in_order(self) -> NDArray[np.intp]:
        """Return the live rows, a node of each zone in turn; zones in order of their first row."""
        version = self._table.journal.static_version
        if self._version != version:
            self._version = version
            rows = np.flatnonzero(self._table.live.values[: self._table.n])
            self._order = rows[_in_turn(self._zones(rows))]
        return self._order

    def _zones(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return a number per zone and region, shape (k,)."""
        old_region, region, old_zone, zone = (
            self._table.lookup(("label", key)).values[rows].astype(np.int64)
            for key in (OLD_REGION, REGION, OLD_ZONE, ZONE)
        )
        region = np.where(old_region != 0, old_region, region)
        return (region << 32) | np.where(old_zone != 0, old_zone, zone)


def _without(filtering: results.FilteredNodes, rows: NDArray[np.intp]) -> results.FilteredNodes:
    """Return a copy in which these rows were not evaluated."""
    first, by_plugins = filtering.first.copy(), filtering.by_plugins.copy()
    first[rows] = by_plugins[rows] = NOT_ASKED
    unseen = set(rows.tolist()) if filtering.overrides else set()
    overrides = {
        row: override for row, override in filtering.overrides.items() if row not in unseen
    }
    return filtering.restricted(first, by_plugins, overrides=overrides)


def _in_turn(zones: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return places such that each zone has its turn: first of each, second of each, and so on."""
    _, first, zone, counts = np.unique(
        zones, return_index=True, return_inverse=True, return_counts=True
    )
    together = np.argsort(zone, kind="stable")
    turn = np.empty(zones.size, np.intp)
    turn[together] = np.arange(zones.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.lexsort((first[zone], turn))
