"""PreemptionAttempt: what a search for victims works with, and what a dry run finds on nodes."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.framework import CycleState, Status
from policy_sched.framework.evaluate import FilterDryRun, Nominations
from policy_sched.model import PodInfo


class PreemptionAttempt(msgspec.Struct, frozen=True):
    """A pod that fits nowhere, and what its dry runs need.

    ``state`` is what the failed attempt's PreFilter plugins left; it is not changed.
    ``nominations``: the pods that it gives way to are those nominated that come before it.
    """

    pod: PodInfo
    state: CycleState
    filter_dry_run: FilterDryRun
    cache: Cache
    nominations: Nominations


class Victims(msgspec.Struct, frozen=True):
    """The pods that may be evicted from each of some nodes.

    ``rows``: rows of the node table, shape (m,). ``block``: rows of the pod table, shape (depth,
    m), in the order in which they are spared, -1 below the last. ``violating``: how many of each
    column break a disruption budget; these come first. shape (m,).
    """

    rows: NDArray[np.intp]
    block: NDArray[np.intp]
    violating: NDArray[np.int64]

    def at(self, places: NDArray[np.intp]) -> Victims:
        """Return the victims on the nodes at some places."""
        return Victims(self.rows[places], self.block[:, places], self.violating[places])

    def violations(self, gone: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many of those that go break a budget, shape (m,)."""
        if not self.violating.any():
            return self.violating
        line = np.arange(self.block.shape[0])[:, np.newaxis]
        found: NDArray[np.int64] = (gone & (line < self.violating)).sum(axis=0)
        return found


class DryRunResult(msgspec.Struct, frozen=True):
    """What a dry run on m nodes found.

    ``fits``: the pod fits when all victims are gone, shape (m,). ``gone``: victims that could not
    be spared then, shape (depth, m). ``statuses``: why it fits nowhere, by row; where that was not
    asked the row is missing.
    """

    fits: NDArray[np.bool_]
    gone: NDArray[np.bool_]
    statuses: dict[int, Status]
