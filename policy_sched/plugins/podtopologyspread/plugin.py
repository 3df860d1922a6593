"""PodTopologySpread: spreads pods over the values of node labels, as their constraints require."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Final

from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Feasible,
    FilterResult,
    Handle,
    PreFilterResult,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodInfo,
)
from policy_sched.plugins.podtopologyspread.constraints import ConstraintCache
from policy_sched.plugins.podtopologyspread.counts import SpreadCounter
from policy_sched.plugins.podtopologyspread.filtering import HardSpread, hard_spread, moved, verdict
from policy_sched.plugins.podtopologyspread.scoring import (
    SoftSpread,
    normalized,
    score,
    soft_spread,
)

NAME: Final = "PodTopologySpread"

#: What decides about a pod's constraints, its own and those of its workload.
_read: Final = attrgetter(
    "topology_spread",
    "namespace",
    "labels_key",
    "node_selector_key",
    "node_affinity",
    "tolerations",
    "owner_key",
)
_SKIP_FILTER: Final = PreFilterResult(SKIP)
_ASK_FILTER: Final = PreFilterResult()


class PodTopologySpread:
    """Refuses nodes that break a hard constraint and prefers those that suit the soft ones."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        self._table = handle.nodes
        self._book = ConstraintCache(args, handle.objects)
        self._counter = SpreadCounter(handle.nodes, handle.cache.counts)

    @hookimpl
    def sign_pod(self) -> Signature:
        """Tell pods apart by what decides about constraints and about the nodes that count."""
        return Signature(frozenset(), Scope.CLUSTER, proved=True, keys=(self._key,))

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Pods that come, change labels or go; nodes that do, or change taints."""
        pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        nodes = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        own = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes)),
            ClusterEventWithHint(ClusterEvent(EventResource.UNSCHEDULABLE_POD, own)),
        )

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Count pods for the hard constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return PreFilterResult(Status(Code.ERROR, (constraints.error,)))
        if not constraints.hard:
            return _SKIP_FILTER
        state.write(hard_spread(self._counter, pod, constraints.hard))
        return _ASK_FILTER

    @hookimpl
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Count `other` on the row, too."""
        return _move(state, pod, other, row, 1)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Count `other` on the row no longer."""
        return _move(state, pod, other, row, -1)

    @hookimpl
    def filter(self, state: CycleState, rows: Rows) -> FilterResult:
        """Refuse nodes without a label, and those whose domain has too many pods already."""
        hard = state.read(HardSpread)
        return PASSES if hard is None else verdict(hard, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Count pods for the soft constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return Status(Code.ERROR, (constraints.error,))
        if not constraints.soft:
            return SKIP
        feasible = state.read(Feasible)
        assert feasible is not None, "it is there from PreScore on"
        live = self._table.live_count
        state.write(soft_spread(self._counter, pod, constraints, feasible.rows, live))
        return SUCCESS

    def _key(self, pod: PodInfo) -> Hashable:
        return _read(pod) if self._book.may_hold(pod) else None

    @hookimpl
    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return how many pods are where the node is, weighted: fewer is better."""
        soft = state.read(SoftSpread)
        assert soft is not None, "PreScore has counted"
        return score(soft, rows)

    @hookimpl
    def normalize_score(self, scores: Scores) -> Scores:
        """Turn the scores round, into 0..100."""
        return normalized(scores)


def _move(state: CycleState, pod: PodInfo, other: PodInfo, row: int, by: int) -> Status:
    hard = state.read(HardSpread)
    if hard is not None:
        state.write(moved(hard, pod, other, row, by))
    return SUCCESS
