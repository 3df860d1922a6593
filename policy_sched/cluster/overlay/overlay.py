"""What if pods went or came: tried out on the tables one pod at a time, then undone exactly.

Theory of operation: inside the ``with`` block both tables, ``pods_on`` and the pod counts say what
they would say if the pods had been removed or added; the journal is not told, so that nothing
which was kept for the real cluster is touched. On leaving, every change is undone in reverse, and
each row gets the very mapping of pods back that it had.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import NO_NODE
from policy_sched.model import PodInfo


class WhatIf:
    """A context in which pods can be taken off live rows and put on them.

    Nothing else may change the cache while the context is open.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._log: list[tuple[int, int, PodInfo]] = []
        self._lent: dict[int, dict[str, PodInfo]] = {}
        self._guests: dict[str, int] = {}
        self._ports: dict[int, set[int]] = {}
        self._supposed = 0

    def __enter__(self) -> Self:
        self._supposed = len(self._cache.nodes.supposed)
        self._cache.nodes.supposing += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()
        self._cache.nodes.supposing -= 1

    def remove(self, row: int, pod: PodInfo) -> None:
        """Take a pod off a row: one that runs there, or one that was added here before."""
        self._pods(row).pop(pod.uid)
        self._count(row, pod, -1)
        self._note(row, -1, pod)

    def add(self, row: int, pod: PodInfo) -> None:
        """Put a pod on a row: one that was removed here before, or one that runs nowhere."""
        self._pods(row)[pod.uid] = pod
        self._count(row, pod, 1)
        self._note(row, 1, pod)

    def _note(self, row: int, sign: int, pod: PodInfo) -> None:
        self._log.append((row, sign, pod))
        self._cache.nodes.supposed.append((row, sign, pod))

    def undo(self) -> None:
        """Bring everything back to what it was."""
        for row, sign, pod in reversed(self._log):
            self._count(row, pod, -sign)
        self._log.clear()
        del self._cache.nodes.supposed[self._supposed :]
        for pod_row in self._guests.values():
            self._cache.pods.remove(pod_row)
        self._guests.clear()
        usage = self._cache.nodes.usage
        for row in self._ports:
            usage.used_ports.view[row] = usage.port_set(usage.port_counts(row))
        self._ports.clear()
        for row, pods in self._lent.items():
            self._cache.nodes.swap_pods(row, pods)
        self._lent.clear()

    def _pods(self, row: int) -> dict[str, PodInfo]:
        nodes = self._cache.nodes
        if row not in self._lent:
            copy = dict(nodes.pods_on(row))
            self._lent[row] = nodes.swap_pods(row, copy)
            return copy
        pods = nodes.pods_on(row)
        assert isinstance(pods, dict), "rows are not tried out in two ways at once"
        return pods

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        cache = self._cache
        if pod.host_ports and row not in self._ports:
            self._ports[row] = set(cache.nodes.usage.port_counts(row))
        if sign > 0:
            cache.nodes.usage.count(row, pod, 1)
            cache.counts.add(row, pod)
        else:
            cache.nodes.usage.count(row, pod, -1)
            cache.counts.remove(row, pod)
        if pod.host_ports:
            usage, held = cache.nodes.usage, self._ports[row]
            usage.move_ports(held, pod, sign)
            usage.used_ports.view[row] = usage.port_set(held)
        cache.nodes.forget_totals()
        pod_row = cache.pod_row(pod.uid)
        if pod_row is None:
            pod_row = self._guests.get(pod.uid)
        if pod_row is None:
            self._guests[pod.uid] = cache.pods.add(pod, row)
        else:
            cache.pods.move(pod_row, row if sign > 0 else NO_NODE)
