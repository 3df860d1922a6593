"""PodTopologySpread: spreads pods over the values of node labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Final

import msgspec

from policy_sched.cluster.tables import NodeView
from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Feasible,
    FilterResult,
    Handle,
    Incremental,
    PodKey,
    PreFilterResult,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    ClusterEventWithHint,
    PodInfo,
)
from policy_sched.plugins.podtopologyspread import events
from policy_sched.plugins.podtopologyspread.constraints import (
    ConstraintCache,
    Constraints,
    SpreadCounter,
)
from policy_sched.plugins.podtopologyspread.filtering import (
    HardSpread,
    hard_spread,
    moved,
    verdict,
)
from policy_sched.plugins.podtopologyspread.incremental import (
    HardUpdates,
    SpreadUpdates,
    soft_updates,
)
from policy_sched.plugins.podtopologyspread.scoring import (
    SoftSpread,
    normalized,
    score,
    soft_spread,
)

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


class _Known(msgspec.Struct, frozen=True, eq=False):
    """The constraints of a pod, and the version of the objects that they were found in."""

    constraints: Constraints
    version: int


class PodTopologySpread:
    """Rejects nodes that violate a hard constraint and scores the soft ones."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        self._table = handle.nodes
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
        constraints = self._constraints(state, pod)
        if constraints.error:
            return PreFilterResult(Status(Code.ERROR, (constraints.error,)))
        if not constraints.hard:
            return _SKIP_FILTER
        before = state.read(HardSpread)
        state.write(hard_spread(self._counter, pod, constraints.hard, before))
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
        hard = state.read(HardSpread)
        return PASSES if hard is None else verdict(hard, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Count pods for the soft constraints; skip without any."""
        constraints = self._constraints(state, pod)
        if constraints.error:
            return Status(Code.ERROR, (constraints.error,))
        if not constraints.soft:
            return SKIP
        feasible, before = state.read(Feasible), state.read(SoftSpread)
        assert feasible is not None, "PreScore runs after the filters"
        live = self._table.live_count
        state.write(soft_spread(self._counter, pod, constraints, feasible, live, before))
        return SUCCESS

    def _constraints(self, state: CycleState, pod: PodInfo) -> Constraints:
        """Return the pod's constraints, which the state keeps for equal pods."""
        known = state.read(_Known)
        if known is None or known.version != self._objects.version:
            known = _Known(self._book.of(pod), self._objects.version)
            state.write(known)
        return known.constraints

    def _incremental(self, state: CycleState, pod: PodInfo) -> Incremental | None:
        """Return what updates the results of an evaluation; None if they need a look at all."""
        constraints = self._constraints(state, pod)
        hard = state.read(HardSpread) if constraints.hard else None
        soft = state.read(SoftSpread) if constraints.soft else None
        feasible = state.read(Feasible)
        if feasible is None or (hard is None and soft is None):
            return None
        scores = None
        if soft is not None:
            live = self._table.live_count
            scores = soft_updates(self._counter, soft, feasible, live)
            if scores is None:
                return None
        filters = None if hard is None else HardUpdates(self._counter, hard)
        return SpreadUpdates(self._objects, filters, scores)

    def _key(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.topology_spread_constraints:
            return _read_own(pod)
        return _read(pod) if self._book.may_hold(pod) else None

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """Return the weighted number of pods in the nodes' domains: fewer is better."""
        del pod
        soft = state.read(SoftSpread)
        assert soft is not None, "PreScore stored it"
        return score(soft, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Reverse the scores, into 0..100."""
        del pod
        soft, feasible = state.read(SoftSpread), state.read(Feasible)
        if soft is None or feasible is None or soft.by_domain is None:
            return normalized(scores)
        return soft.by_domain.normalized(feasible.rows, normalized)


def _move(state: CycleState, pod: PodInfo, other: PodInfo, row: int, by: int) -> Status:
    hard = state.read(HardSpread)
    if hard is not None:
        state.write(moved(hard, pod, other, row, by))
    return SUCCESS
