"""Plugins written by hand, as a third party would write them: one per scope."""

from __future__ import annotations

import numpy as np

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
