"""Filters run with and without nominated pods, as kube-scheduler does.

Theory of operation: where pods of equal or higher priority are nominated to a node, the filters
must pass with those pods added and without them, because they may never be bound. The second result
is the ordinary one; `FilterDryRun.rejections_with` computes the first, for the few rows that need
it. Pods with the same nominated pods share it, and the nominator's log lists the rows to evaluate
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from policy_sched.cluster import Cache
from policy_sched.model import PodInfo
from policy_sched.queue import Nominator


class Nominations:
    """The nominator, as the evaluation of a pod sees it."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator
        self.nodes: Mapping[str, str] = nominator.node_by_uid
        """The node that each pod is nominated to, by UID; empty if there are no nominations."""
        self.overlay = cache.overlay
        """In which nominated pods can be added."""

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
        by_row = {}
        for row, pods in self.nominated_pods(pod.priority).on(rows).items():
            others = tuple([other for other in pods if other.uid != pod.uid])
            if others:
                by_row[row] = others
        return by_row


class NominatedPods:
    """Nominated pods of one priority or a higher one."""

    __slots__ = ("_cache", "_nominator", "_priority", "_version", "overlay")

    def __init__(self, cache: Cache, nominator: Nominator, priority: int) -> None:
        self._cache = cache
        self._nominator = nominator
        self._priority = priority
        self._version = nominator.version
        self.overlay = cache.overlay
        """In which they can be added."""

    def moved(self) -> list[int] | None:
        """Return the live rows where nominations changed since it was called; None if unknown."""
        before, self._version = self._version, self._nominator.version
        if before == self._version:
            return []
        nodes = self._nominator.since(before)
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
        nodes, by_node, least = self._cache.nodes, self._nominator.by_node, self._priority
        if rows is None or len(rows) > len(by_node):
            wanted = None if rows is None else set(rows)
            there = [nodes.row_of.get(node) for node in by_node]
            rows = [row for row in there if row is not None and (wanted is None or row in wanted)]
        by_row: dict[int, tuple[PodInfo, ...]] = {}
        for row in rows:
            pods = by_node.get(nodes.names[row])
            if pods is not None:
                nominated = tuple([pod for pod in pods.values() if pod.priority >= least])
                if nominated:
                    by_row[row] = nominated
        return by_row
