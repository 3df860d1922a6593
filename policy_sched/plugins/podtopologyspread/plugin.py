"""PodTopologySpread: spreads pods over the values of node labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeView
from policy_sched.framework import (
    PASSES,
    SAME_CODES,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Feasible,
    FilterResult,
    GroupedSums,
    Handle,
    Incremental,
    PodKey,
    PreFilterResult,
    Refiltered,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import ClusterEventWithHint, PodInfo
from policy_sched.plugins.podtopologyspread import events, filtering, scoring
from policy_sched.plugins.podtopologyspread.constraints import ConstraintCache, SpreadCounter

NAME: Final = "PodTopologySpread"

#: What the results depend on besides a pod's own constraints, or its workload.
_FIELDS: Final = (
    "namespace",
    "labels_key",
    "node_selector_key",
    "node_affinity",
    "tolerations",
)
_read_own: Final = attrgetter("topology_spread", *_FIELDS)
_read: Final = attrgetter(*_FIELDS, "owner_key")
_SKIP_FILTER: Final = PreFilterResult(SKIP)
_ASK_FILTER: Final = PreFilterResult()


class PodTopologySpread:
    """Rejects nodes that violate a hard constraint and scores the soft ones."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        self._objects = handle.objects
        self._book = ConstraintCache(args, handle.objects)
        self._counter = SpreadCounter(handle.nodes, handle.cache.counts)

    @hookimpl
    def sign_pod(self) -> Signature:
        """Return the signature: fields that constraints and the nodes that count depend on."""
        own = "pod.spec.topology_spread_constraints"
        key = PodKey(self._key, own, self._book.workloads)
        return Signature(
            frozenset(), Scope.CLUSTER, proved=True, keys=(key,), incremental=self._incremental
        )

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods added, relabelled or deleted, and nodes added, changed or tainted."""
        return events.of(self._book.of)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Count pods for the hard constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return PreFilterResult(Status(Code.ERROR, (constraints.error,)))
        if not constraints.hard:
            return _SKIP_FILTER
        state.write(filtering.hard_spread(self._counter, pod, constraints.hard))
        return _ASK_FILTER

    @hookimpl
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Add `other` to the row."""
        return _move(state, pod, other, row, 1)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Remove `other` from the row."""
        return _move(state, pod, other, row, -1)

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows, nodes: NodeView) -> FilterResult:
        """Reject nodes without a label, and nodes whose domain would exceed maxSkew."""
        del pod, nodes
        hard = state.read(filtering.HardSpread)
        return PASSES if hard is None else filtering.verdict(hard, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Count pods for the soft constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return Status(Code.ERROR, (constraints.error,))
        if not constraints.soft:
            return SKIP
        state.write(scoring.soft_spread(self._counter, pod, constraints))
        return SUCCESS

    def _incremental(self, state: CycleState, pod: PodInfo) -> Incremental | None:
        """Return what updates the results of an evaluation; None if they need a look at all."""
        constraints, feasible = self._book.of(pod), state.read(Feasible)
        hard = state.read(filtering.HardSpread) if constraints.hard else None
        soft = state.read(scoring.SoftSpread) if constraints.soft else None
        if feasible is None or (hard is None and soft is None):
            return None
        sums = None if soft is None else scoring.grouped(soft, feasible)
        if soft is not None and sums is None:
            return None
        return SpreadUpdates(self._objects, hard, soft, sums)

    def _key(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.topology_spread_constraints:
            return _read_own(pod)
        return _read(pod) if self._book.may_hold(pod) else None

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """Return the weighted number of pods in the nodes' domains: fewer is better."""
        del pod
        soft, feasible = state.read(scoring.SoftSpread), state.read(Feasible)
        assert soft is not None, "PreScore stored it"
        assert feasible is not None, "PreScore runs after the filters"
        return scoring.score(soft, feasible, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Reverse the scores, into 0..100."""
        del state, pod
        return scoring.normalized(scores)


class SpreadUpdates:
    """What updates the results for one pod after pods came to or left some rows.

    ``hard``, ``soft``, ``sums``: None without such constraints.
    """

    def __init__(
        self,
        objects: ApiObjects,
        hard: filtering.HardSpread | None,
        soft: scoring.SoftSpread | None,
        sums: GroupedSums | None,
    ) -> None:
        self._objects, self._version = objects, objects.version
        self._hard = hard
        self._live = [] if hard is None else [constraint.live for constraint in hard.each]
        self._live += [] if soft is None else [constraint.live for constraint in soft.each]
        self.scores = sums

    def holds(self) -> bool:
        """Return whether the same objects select the pod, and totals are kept up to date yet."""
        for live in self._live:
            if live.counts.version != live.version:
                return False
        return self._objects.version == self._version

    def filter(self, state: CycleState, rows: Sequence[int]) -> Refiltered:
        """Count again in the domains of the rows, to which pods came or which they left.

        The counts are written to the state.
        """
        if self._hard is None:
            return SAME_CODES
        each: list[filtering.Hard] | None = None
        turned = filtering.NO_ROWS
        for position, hard in enumerate(self._hard.each):
            ids, now, before = hard.live.domain.id_view, hard.live.view, hard.totals
            changed: list[int] = []
            for row in rows:
                number = ids[row]
                if now[number] != before.item(number):
                    changed.append(number)
            if changed:
                each = list(self._hard.each) if each is None else each
                each[position], others = filtering.recounted(hard, changed)
                if others.size:
                    turned = np.union1d(turned, others) if turned.size else others
        if each is None:
            return SAME_CODES
        spread = self._hard = filtering.HardSpread(self._hard.labelled, tuple(each))
        state.write(spread)
        return Refiltered(turned, filtering.verdict(spread, turned)) if turned.size else SAME_CODES


def _move(state: CycleState, pod: PodInfo, other: PodInfo, row: int, by: int) -> Status:
    hard = state.read(filtering.HardSpread)
    if hard is not None:
        state.write(filtering.moved(hard, pod, other, row, by))
    return SUCCESS
