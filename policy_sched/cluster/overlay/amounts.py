"""What an overlay works with: its copies of columns, and the pods that it adds and removes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import SMALL, Column, Key, NodeTable, PodRows
from policy_sched.model import PodInfo


class Copy(msgspec.Struct, frozen=True):
    """An overlay's copy of a dynamic column.

    ``amount``: the column of the pod table whose values it sums, () for the number of pods;
    ``sign``: 1, or -1 where the amounts are subtracted.
    """

    column: Column
    source: Column
    amount: Key
    sign: int


class ByAmount:
    """Copies by what they sum, each with its sign: requests by resource, and the number of pods."""

    __slots__ = ("columns", "counts", "non_zero", "requests")

    def __init__(self, copies: Iterable[Copy], sums: Iterable[Copy]) -> None:
        self.columns = [copy.column for copy in copies]
        self.counts: list[Column] = []
        self.requests: dict[str, list[tuple[Column, int]]] = {}
        self.non_zero: dict[str, list[tuple[Column, int]]] = {}
        for copy in sums:
            if not copy.amount:
                self.counts.append(copy.column)
            else:
                kind = self.requests if copy.amount[0] == "request" else self.non_zero
                kind.setdefault(copy.amount[1], []).append((copy.column, copy.sign))


class AddedPods:
    """Pods to be added to many rows, by row, with their amounts."""

    def __init__(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        self.pods = pods
        self.rows: NDArray[np.intp] = np.array(list(pods), np.intp)
        """The rows in the mapping's order, shape (k,)."""
        self._amounts: dict[Key, NDArray[np.int64] | None] = {}

    @cached_property
    def ports(self) -> list[int]:
        """The rows with pods that hold host ports."""
        return [row for row, some in self.pods.items() if any(pod.host_ports for pod in some)]

    @cached_property
    def large(self) -> list[int]:
        """The rows with amounts that are not simply added up."""
        return [row for row, some in self.pods.items() if any(map(is_large, some))]

    def amounts(self, key: Key) -> NDArray[np.int64] | None:
        """Return what is added by row, shape (k,); None if that is nothing."""
        if key not in self._amounts:
            sums = _sums(self.pods.values(), key)
            # Rows with large amounts are summed anew; their sums may be too large for an array.
            small = [0 if row in self.large else n for row, n in zip(self.pods, sums, strict=True)]
            self._amounts[key] = np.array(small, np.int64) if any(small) else None
        return self._amounts[key]


class Block:
    """Pods that were removed from many rows, and which of them are back.

    ``rows``: live rows, each once, shape (m,). ``pods``: shape (depth, m). ``copies``: the columns
    that follow.
    """

    def __init__(
        self, nodes: NodeTable, rows: NDArray[np.intp], pods: PodRows, copies: list[Copy]
    ) -> None:
        self.copies = copies
        self.rows = rows
        self.pods = pods
        self.there = pods.there
        self.here: NDArray[np.bool_] = np.zeros(self.there.shape, np.bool_)
        self.whole = rows.size == nodes.n and bool((rows == np.arange(rows.size)).all())
        self.where = slice(0, rows.size) if self.whole else rows
        self._amounts: dict[Key, tuple[NDArray[np.int64], NDArray[np.int64]] | None] = {}
        self.ports: dict[int, NDArray[np.bool_]] = {}
        """By line of the block, the flags of the places whose pod holds host ports."""
        if nodes.usage.used_ports.values[self.where].any():
            holds = pods.of(("hostPorts",)) & self.there
            lines = np.flatnonzero(holds.any(axis=1)).tolist()
            self.ports = {line: holds[line] for line in lines}
        self._column_of: dict[int, int] = {}
        self._moving: list[tuple[Copy, NDArray[np.int64]]] | None = None

    def amounts(self, key: Key) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return an amount of each pod, shape (depth, m), and their sums; None if all are 0."""
        if key not in self._amounts:
            of_pods: NDArray[np.int64]
            if not key:
                of_pods = self.there.astype(np.int64)
            elif self.pods.is_part:
                of_pods = self.pods.of(key) * self.there
            else:
                of_pods = self.pods.of(key)
            sums = np.add.reduce(of_pods, axis=0)
            self._amounts[key] = (of_pods, sums) if sums.any() else None
        return self._amounts[key]

    def follow(self, copy: Copy) -> None:
        """Move one more column from now on."""
        self.copies.append(copy)
        self._moving = None

    def moving(self) -> list[tuple[Copy, NDArray[np.int64]]]:
        """Return the columns that change as pods move, with what each pod has of them."""
        if self._moving is None:
            every = [(copy, self.amounts(copy.amount)) for copy in self.copies]
            self._moving = [(copy, amounts[0]) for copy, amounts in every if amounts is not None]
        return self._moving

    def pod(self, step: int, column: int) -> PodInfo:
        """Return a pod of the block."""
        pod = self.pods.pods.infos[self.pods.rows.item(step, column)]
        assert pod is not None, "the block holds pods that run"
        return pod

    def gone_from(self, row: int) -> set[str]:
        """Return the uids of the pods that are not on a row any more."""
        if not self._column_of:
            self._column_of = {row: column for column, row in enumerate(self.rows.tolist())}
        column = self._column_of.get(row)
        if column is None:
            return set()
        steps = np.flatnonzero(self.there[:, column] & ~self.here[:, column]).tolist()
        return {self.pod(step, column).uid for step in steps}


def _sums(groups: Iterable[Sequence[PodInfo]], key: Key) -> list[int]:
    """Return the sum of `amount_of` for each group of pods."""
    if not key:
        return [len(pods) for pods in groups]
    name = key[1]
    if key[0] == "request":
        return [sum([pod.requests.get(name, 0) for pod in pods]) for pods in groups]
    return [sum([pod.non_zero_added.get(name, 0) for pod in pods]) for pods in groups]


def amount_of(pod: PodInfo, key: Key) -> int:
    """Return what a pod has of a column of the pod table; 1 for ()."""
    if not key:
        return 1
    amounts = pod.requests if key[0] == "request" else pod.non_zero_added
    return amounts.get(key[1], 0)


def is_large(pod: PodInfo) -> bool:
    """Return whether one of the pod's amounts is more than what is simply added up."""
    for amounts in (pod.requests, pod.non_zero_added):
        for amount in amounts.values():
            if amount > SMALL:
                return True
    return False
