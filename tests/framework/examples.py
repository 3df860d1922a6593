"""Plugins written by hand, as a third party would write them: one per scope."""

from __future__ import annotations

import numpy as np

from policy_sched import framework
from policy_sched.cluster import Cache
from policy_sched.framework import FilterResult, PreFilterResult, Rows, Scope, Scores, Signature
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.status import SKIP, SUCCESS, Code, Status
from policy_sched.model.pod_info import PodInfo


class Cpu:
    """Filters by free cpu and prefers nodes with much of it; reads what runs on a node."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._free = handle.nodes.column(("free", "cpu"))
        self._all = handle.nodes.column(("allocatable", "cpu"))

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("requests",)}), Scope.NODE)

    @hookimpl
    def filter(self, pod: PodInfo, rows: Rows) -> FilterResult:
        codes = (self._at(self._free.values, rows) < pod.requests.get("cpu", 0)).astype(np.int16)
        return FilterResult.of(codes, Status(Code.UNSCHEDULABLE, ("Insufficient cpu",)))

    @hookimpl
    def score(self, pod: PodInfo, rows: Rows) -> Scores:
        free = self._at(self._free.values, rows) - pod.requests.get("cpu", 0)
        capacity = np.maximum(self._at(self._all.values, rows), 1)
        return np.clip(free * 100 // capacity, 0, 100)

    def _at(self, values: Scores, rows: Rows) -> Scores:
        return values[: self._table.n] if rows is None else values[rows]


class Tier:
    """Filters and scores by a node label; reads only what the node says of itself."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._tier = handle.nodes.column(("label", "tier"))

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("labels", "tier")}), Scope.STATIC)

    @hookimpl
    def filter(self, pod: PodInfo, rows: Rows) -> FilterResult:
        banned = self._table.strings.find(pod.labels.get("tier", "") + "-never")
        codes = (self._codes(rows) == banned).astype(np.int16)
        return FilterResult.of(codes, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("wrong tier",)))

    @hookimpl
    def score(self, rows: Rows) -> Scores:
        return self._codes(rows).astype(np.int64)

    @hookimpl
    def normalize_score(self, scores: Scores) -> Scores:
        return scores * 100 // max(1, int(scores.max()))

    def _codes(self, rows: Rows) -> Scores:
        values = self._tier.values
        return values[: self._table.n] if rows is None else values[rows]


class Crowd:
    """Prefers nodes with few of all pods; what runs elsewhere counts, too."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._count = handle.nodes.column(("podCount",))

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("namespace",)}), Scope.CLUSTER)

    @hookimpl
    def score(self, rows: Rows) -> Scores:
        n = self._table.n
        counts = self._count.values[:n] if rows is None else self._count.values[rows]
        return 100 - counts * 100 // max(1, self._table.pod_total)


class Shy:
    """Concerned only while an odd number of pods runs; then it avoids the first such node."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._count = handle.nodes.column(("podCount",))

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset(), Scope.CLUSTER)

    @hookimpl
    def pre_filter(self) -> PreFilterResult:
        return PreFilterResult() if self._table.pod_total % 2 else PreFilterResult(SKIP)

    @hookimpl
    def filter(self, rows: Rows) -> FilterResult:
        n = self._table.n
        codes = np.zeros(n, np.int16)
        codes[np.argmax(self._count.values[:n] > 0)] = 1
        status = Status(Code.UNSCHEDULABLE, ("odd",))
        return FilterResult.of(codes if rows is None else codes[rows], status)

    @hookimpl
    def pre_score(self) -> Status:
        return SKIP if self._table.pod_total > 2 else SUCCESS

    @hookimpl
    def score(self, rows: Rows) -> Scores:
        n = self._table.n if rows is None else rows.size
        return np.full(n, self._table.pod_total, np.int64)


class Ordinal:
    """Scores by the pod's name; does not say what it reads, so nothing of it is shared."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        rows = np.arange(self._table.n) if rows is None else rows
        return (rows * 7 + len(pod.name)) % 101


FULL = framework.Status(Code.UNSCHEDULABLE, ("full",))


class Few:
    """At most ``most`` pods on a node, and the fewer the better; fails on a node with ``poison``.

    ``coded``: its function of a row knows the code. ``calls``: how it was called, by rows or by
    the functions of one row.
    """

    def __init__(
        self, cache: Cache, most: int = 3, poison: int = -1, *, coded: bool = False
    ) -> None:
        self._table = cache.nodes
        self._coded = coded
        self._most = most
        self._poison = poison
        self.calls: list[str] = []

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read the pods of the node alone."""
        kernel = framework.RowKernel(
            framework.RowRule(self._row_code), framework.RowRule(self._row_score)
        )
        return framework.Signature(frozenset(), framework.Scope.NODE, proved=True, kernel=kernel)

    def _row_code(self, _pod: PodInfo, row: int) -> int:
        self.calls.append("row")
        rejected = 1 if self._coded else framework.NO_CODE
        return rejected if self._count(row) >= self._most else 0

    def _row_score(self, _pod: PodInfo, row: int) -> int:
        self.calls.append("row")
        return 100 - self._count(row)

    def _count(self, row: int) -> int:
        count = len(self._table.pods_on(row))
        if count == self._poison:
            raise ValueError("poison")
        return count

    def _counts(self, rows: framework.Rows) -> list[int]:
        self.calls.append("rows")
        return [self._count(row) for row in (range(self._table.n) if rows is None else rows)]

    @framework.hookimpl
    def filter(self, rows: framework.Rows) -> framework.FilterResult:
        """Refuse nodes that are full."""
        codes = [int(count >= self._most) for count in self._counts(rows)]
        return framework.FilterResult.of(np.array(codes, np.int16), FULL)

    @framework.hookimpl
    def score(self, state: framework.CycleState, rows: framework.Rows) -> framework.Scores:
        """Prefer nodes with few pods."""
        assert state is not None
        return np.array([100 - count for count in self._counts(rows)], np.int64)


class Grade:
    """Prefers some nodes by their place in the table up to ``last``; the best one has 100."""

    def __init__(self, cache: Cache, last: int) -> None:
        self._table = cache.nodes
        self._last = last

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read nothing that changes."""
        return framework.Signature(
            frozenset(),
            framework.Scope.STATIC,
            proved=True,
            kernel=framework.RowKernel(normalizes_by_extremes=True),
        )

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return the place; the last ones are alike."""
        found = np.minimum(np.arange(self._table.n), self._last)
        return found if rows is None else found[rows]

    @framework.hookimpl
    def normalize_score(self, scores: framework.RawScores) -> framework.Scores:
        """Return the share of the way from the lowest to the highest score."""
        top = int(scores.max())
        low = int(scores.min())
        return np.zeros_like(scores) if top == low else (scores - low) * 100 // (top - low)
