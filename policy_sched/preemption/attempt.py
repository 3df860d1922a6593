"""PreemptionAttempt: what a search for victims works with, and what a dry run finds on nodes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import Key, PodRows
from policy_sched.framework import CycleState, Status
from policy_sched.framework.evaluate import FilterDryRun, Key as PodKey, Nominations
from policy_sched.model import PodInfo
from policy_sched.preemption.budgets import running_count


class PreemptionAttempt(msgspec.Struct, frozen=True):
    """A pod that fits nowhere, and what its dry runs need.

    ``state`` is what the failed attempt's PreFilter plugins left; it is not changed.
    ``nominations``: the pods that it gives way to are those nominated that come before it. ``key``:
    the signature of the pods that the filters treat alike, None where only this one is.
    """

    pod: PodInfo
    state: CycleState
    filter_dry_run: FilterDryRun
    cache: Cache
    nominations: Nominations
    key: PodKey | None = None


class Victims(msgspec.Struct, frozen=True):
    """The pods that may be evicted from each of some nodes.

    ``rows``: rows of the node table, shape (m,). ``pods``: all possible victims, the most important
    first, shape (depth, m). ``breaking``: which of them break a disruption budget, None if none
    does; these are reprieved first.
    """

    rows: NDArray[np.intp]
    pods: PodRows
    breaking: NDArray[np.bool_] | None

    @property
    def some(self) -> NDArray[np.bool_]:
        """Return on which nodes there is any, shape (m,)."""
        some: NDArray[np.bool_] = np.logical_or.reduce(self.pods.there, axis=0)
        return some

    def at(self, places: NDArray[np.intp]) -> Victims:
        """Return the victims on the nodes at some places."""
        breaking = None if self.breaking is None else self.breaking.take(places, axis=1)
        return Victims(self.rows[places], self.pods.at(places), breaking)

    def column(self, place: int) -> list[tuple[int, int]]:
        """Return the victims of one node in the order in which they are reprieved.

        They are pairs of a line and a row of the pod table.
        """
        pods, there = self.pods.rows[:, place].tolist(), self.pods.there[:, place].tolist()
        victims = [(line, pod) for line, pod in enumerate(pods) if there[line]]
        if self.breaking is not None:
            first = self.breaking[:, place].tolist()
            victims.sort(key=lambda victim: not first[victim[0]])
        return victims

    def in_order_of_reprieve(self) -> PodRows:
        """Return the pods in the order in which they are reprieved."""
        if self.breaking is None:
            return self.pods
        return _InOrderOfReprieve(self.pods, self.breaking)

    def in_order_of_importance(self, flags: NDArray[np.bool_], pods: PodRows) -> NDArray[np.bool_]:
        """Return flags of pods in order of reprieve in the order that is here."""
        if isinstance(pods, _InOrderOfReprieve):
            return pods.back(flags)
        return flags

    def violations(self, gone: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many of those that go break a budget, shape (m,)."""
        if self.breaking is None:
            return np.zeros(self.rows.size, np.int64)
        return count_down(gone & self.breaking)


class _InOrderOfReprieve(PodRows):
    """Possible victims, those first that break a budget."""

    def __init__(self, pods: PodRows, breaking: NDArray[np.bool_]) -> None:
        super().__init__(pods.pods)
        self._pods = pods
        first, others = running_count(breaking), running_count(pods.there ^ breaking)
        count = first[-1] + others[-1]
        # In unsigned numbers: what is below 0 in between is not in the end.
        line = others + first[-1]
        line += (first - line) * breaking.view(np.uint8)
        depth, m = line.shape
        place = line.astype(np.intp)
        place -= 1
        place *= m
        place += np.arange(m)
        if np.count_nonzero(pods.there) < place.size:
            place[~pods.there] = place.size
        self._place = place.reshape(-1)
        self.__dict__["there"] = np.arange(depth, dtype=line.dtype)[:, np.newaxis] < count

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the pods."""
        return self._moved(self._pods.rows, -1)

    def of(self, key: Key) -> NDArray[Any]:
        """Return a column of the pod table."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._moved(self._pods.of(key), 0)
        return column

    def back(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return flags of these pods in the order of importance."""
        flagged: NDArray[np.bool_] = np.append(flags, [False]).take(self._place)
        return flagged.reshape(flags.shape)

    def _moved(self, values: NDArray[Any], fill: int) -> NDArray[Any]:
        moved = np.full(values.size + 1, fill, values.dtype)
        moved[self._place] = values.reshape(-1)
        return moved[:-1].reshape(values.shape)


class DryRunResult(msgspec.Struct, frozen=True):
    """What a dry run on m nodes found.

    ``fits``: the pod fits when all victims are gone, shape (m,). ``gone``: victims that could not
    be reprieved then, shape (depth, m). ``statuses``: why it fits nowhere, by row; where that was
    not asked the row is missing.
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
    count: NDArray[np.int64] = np.add.reduce(flags.view(np.uint8), 0, narrow).astype(np.int64)
    return count
