"""Which pods with volumes run where, kept up to date from the journal.

Theory of operation: most pods have no volume that matters, so the rows with those that do are
kept apart. The journal tells on which rows pods came or went since the last look; only those are
gone through again. While something is tried out (preemption), the journal is not told: answers
about single rows are therefore read from the node table itself, and only questions about the
whole cluster use what is kept here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.model import PodInfo


class VolumePods:
    """The pods on live rows whose ``volumes`` are not None."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._version = -1
        self._rows: dict[int, tuple[PodInfo, ...]] = {}
        self._claims: Counter[tuple[str, str]] = Counter()
        self._sizes: NDArray[np.int64] = np.zeros(0, np.int64)

    def on(self, row: int) -> list[PodInfo]:
        """Return the pods with volumes on a row, as the table has them now."""
        return [pod for pod in self._table.pods_on(row).values() if pod.volumes is not None]

    def rows(self) -> Iterable[tuple[int, Sequence[PodInfo]]]:
        """Return the rows that have pods with volumes, with these pods."""
        self._refresh()
        return self._rows.items()

    def sizes(self) -> NDArray[np.int64]:
        """Return how many claims and disks the pods of each row have, shape (n,)."""
        self._refresh()
        return self._sizes[: self._table.n]

    def uses(self, namespace: str, claim: str) -> int:
        """Return how many volumes of pods name a claim."""
        self._refresh()
        return self._claims[namespace, claim]

    def _refresh(self) -> None:
        journal = self._table.journal
        if self._version == journal.version:
            return
        n = self._table.n
        changes = journal.since(self._version) if self._version >= 0 else None
        if self._sizes.size < n:
            self._sizes = np.concatenate([self._sizes, np.zeros(n, np.int64)])
        for row in range(n) if changes is None else changes.rows:
            if row < n:  # the table may have no row yet, and still a change that all share
                self._read(row)
        self._version = journal.version

    def _read(self, row: int) -> None:
        before = self._rows.pop(row, ())
        now = tuple(self.on(row))
        if not before and not now:
            return
        for pod in before:
            self._claims.subtract(_names(pod))
        for pod in now:
            self._claims.update(_names(pod))
        self._sizes[row] = sum(map(_size, now))
        if now:
            self._rows[row] = now


def _names(pod: PodInfo) -> list[tuple[str, str]]:
    assert pod.volumes is not None, "only pods with volumes are kept"
    return [(pod.volumes.namespace, use.name) for use in pod.volumes.claims if not use.ephemeral]


def _size(pod: PodInfo) -> int:
    assert pod.volumes is not None, "only pods with volumes are kept"
    return len(pod.volumes.claims) + len(pod.volumes.disks)
