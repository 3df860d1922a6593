"""PreemptionAttempt: what a search for victims works with, and what a dry run finds on nodes."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import PodRows
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

    ``rows``: rows of the node table, shape (m,). ``pods``: all possible victims, the most important
    first, shape (depth, m). ``breaking``: which of them break a disruption budget, None if none
    does; these are spared first.
    """

    rows: NDArray[np.intp]
    pods: PodRows
    breaking: NDArray[np.bool_] | None

    @property
    def some(self) -> NDArray[np.bool_]:
        """Return on which nodes there is any, shape (m,)."""
        found: NDArray[np.bool_] = np.logical_or.reduce(self.pods.there, axis=0)
        return found

    def at(self, places: NDArray[np.intp]) -> Victims:
        """Return the victims on the nodes at some places."""
        breaking = None if self.breaking is None else self.breaking.take(places, axis=1)
        return Victims(self.rows[places], self.pods.at(places), breaking)

    def column(self, place: int) -> list[tuple[int, int]]:
        """Return the victims of one node in the order in which they are spared.

        They are pairs of a line and a row of the pod table.
        """
        pods, there = self.pods.rows[:, place].tolist(), self.pods.there[:, place].tolist()
        found = [(line, pod) for line, pod in enumerate(pods) if there[line]]
        if self.breaking is not None:
            first = self.breaking[:, place].tolist()
            found.sort(key=lambda one: not first[one[0]])
        return found

    def phases(self) -> tuple[NDArray[np.bool_], ...]:
        """Return the pods that are spared first, and then others, as flags of shape (depth, m)."""
        if self.breaking is None:
            return (self.pods.there,)
        return self.breaking, self.pods.there & ~self.breaking

    def violations(self, gone: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many of those that go break a budget, shape (m,)."""
        if self.breaking is None:
            return np.zeros(self.rows.size, np.int64)
        return count_down(gone & self.breaking)


class DryRunResult(msgspec.Struct, frozen=True):
    """What a dry run on m nodes found.

    ``fits``: the pod fits when all victims are gone, shape (m,). ``gone``: victims that could not
    be spared then, shape (depth, m). ``statuses``: why it fits nowhere, by row; where that was not
    asked the row is missing.
    """

    fits: NDArray[np.bool_]
    gone: NDArray[np.bool_]
    statuses: dict[int, Status]

    def at(self, places: NDArray[np.intp]) -> DryRunResult:
        """Return what was found on the nodes at some places."""
        return DryRunResult(self.fits[places], self.gone.take(places, axis=1), self.statuses)


def count_down(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many flags of each column are set."""
    narrow = np.uint8 if flags.shape[0] < 256 else np.int64
    found: NDArray[np.int64] = np.add.reduce(flags.view(np.uint8), 0, narrow).astype(np.int64)
    return found
