"""Filters run with and without nominated pods, as kube-scheduler does.

Theory of operation: where pods of equal or higher priority are nominated to a node, the filters
must pass with those pods added and without them, because they may never be bound. The second result
is the ordinary one; this module computes the first, for the few rows that need it. Pods with the
same nominated pods share it, and the nominator's log lists the rows to evaluate again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from policy_sched import thresholds
from policy_sched.cluster import Cache
from policy_sched.cluster.overlay import AddedPods, NodeOverlay
from policy_sched.framework import CycleState, Status
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.model import PodInfo
from policy_sched.queue import Nominator

PodsByRow: TypeAlias = Mapping[int, tuple[PodInfo, ...]]
"""By row of the node table: the nominated pods that come before the pod in question."""


class Nominations:
    """The nominator, as the evaluation of a pod sees it."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator
        self.nodes: Mapping[str, str] = nominator.node_by_uid
        """The node that each pod is nominated to, by UID; empty if there are no nominations."""

    def row_of(self, pod: PodInfo) -> int | None:
        """Return the row that the pod itself is nominated to, None without a live one."""
        return self._cache.nodes.row_of.get(self.nodes.get(pod.uid, ""))

    def lowest(self, pod: PodInfo) -> int | None:
        """Return the lowest priority of those the pod gives way to; None if there are none.

        Itself is among them if it is nominated. Pods with the same result have the same nominated
        pods.
        """
        return self._nominator.lowest(pod.priority)

    def nominated_pods(self, priority: int) -> NominatedPods:
        """Return the nominated pods that are at least so important, as of now."""
        return NominatedPods(self._cache, self._nominator, priority)

    def nominated_pods_on(
        self, pod: PodInfo, rows: Sequence[int]
    ) -> dict[int, tuple[PodInfo, ...]]:
        """Return, by row, the other pods that it gives way to on some live rows."""
        if not self.nodes:
            return {}
        found = {}
        for row, pods in self.nominated_pods(pod.priority).on(rows).items():
            others = tuple(other for other in pods if other.uid != pod.uid)
            if others:
                found[row] = others
        return found


class NominatedPods:
    """Nominated pods of one priority or a higher one.

    ``version``: the nominator's version when the nominated pods were last read.
    """

    __slots__ = ("_cache", "_nominator", "_priority", "version")

    def __init__(self, cache: Cache, nominator: Nominator, priority: int) -> None:
        self._cache = cache
        self._nominator = nominator
        self._priority = priority
        self.version = nominator.version

    @property
    def current(self) -> int:
        """The nominator's version now."""
        return self._nominator.version

    def moved(self) -> list[int] | None:
        """Return the live rows where nominations changed after ``version``; None if unknown."""
        if self.version == self._nominator.version:
            return []
        nodes = self._nominator.since(self.version)
        if nodes is None:
            return None
        row_of = self._cache.nodes.row_of
        return [row_of[node] for node in nodes if node in row_of]

    def any_on(self, rows: Iterable[int]) -> bool:
        """Return whether there are nominated pods on one of some rows."""
        names = self._cache.nodes.names
        return self._nominator.any_on([names[row] for row in rows], self._priority)

    def on(self, rows: Sequence[int] | None) -> dict[int, tuple[PodInfo, ...]]:
        """Return the nominated pods on some rows, or on all live ones; rows without any are left
        out."""
        nodes, nominator = self._cache.nodes, self._nominator
        found: dict[int, tuple[PodInfo, ...]] = {}
        places: Iterable[tuple[int | None, tuple[PodInfo, ...]]]
        if rows is not None and len(rows) <= thresholds.FEW_ROWS:
            places = [(row, nominator.pods_on(nodes.names[row])) for row in rows]
        else:
            wanted = None if rows is None else set(rows)
            every = ((nodes.row_of.get(node), pods) for node, pods in nominator.nominated())
            places = (one for one in every if wanted is None or one[0] in wanted)
        for row, pods in places:
            if row is None or not pods:
                continue
            nominated = tuple([pod for pod in pods if pod.priority >= self._priority])
            if nominated:
                found[row] = nominated
        return found

    def rejections(
        self,
        filter_dry_run: FilterDryRun,
        state: CycleState,
        pod: PodInfo,
        nominated: PodsByRow,
        *,
        passed: bool = False,
    ) -> dict[int, tuple[int, Status]]:
        """Return the rows that reject the pod with the nominated pods added, as `FilterDryRun`.

        ``passed``: without these pods they pass.
        """
        overlay = self._cache.overlay
        return rejections_with_nominated_pods(
            overlay, filter_dry_run, state, pod, nominated, passed=passed
        )


def rejections_with_nominated_pods(
    nodes: NodeOverlay,
    filter_dry_run: FilterDryRun,
    state: CycleState,
    pod: PodInfo,
    nominated: PodsByRow,
    *,
    passed: bool = False,
) -> dict[int, tuple[int, Status]]:
    """Return the rows of an overlay that reject the pod with the nominated pods added.

    The result is that of `FilterDryRun.rejections`. ``passed``: all filters pass the rows without
    these pods.
    """
    rejections: dict[int, tuple[int, Status]] = {}
    together: PodsByRow = nominated
    if filter_dry_run.node_by_node:
        together = {
            row: others
            for row, others in nominated.items()
            if filter_dry_run.is_unaffected_by(state, pod, row, (), others)
        }
    if together:
        added = AddedPods(together)
        with nodes:
            nodes.add_all(added)
            rejections |= filter_dry_run.rejections(nodes, state, pod, added.rows, moved=passed)
    for row, others in nominated.items():
        if row in together:
            continue
        clone = state.clone()
        with nodes:
            for other in others:
                nodes.add(row, other)
                filter_dry_run.add_pod(clone, pod, other, row)
            rejections |= filter_dry_run.rejections(nodes, clone, pod, np.array([row], np.intp))
    return rejections
