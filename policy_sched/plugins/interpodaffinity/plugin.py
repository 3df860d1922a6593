"""InterPodAffinity: keeps pods near pods, and away from pods, as their affinity terms require."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from policy_sched.cluster.counts import Domain
from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
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
from policy_sched.plugins.interpodaffinity.filtering import (
    OwnTerms,
    TermCache,
    TopologyPairCounts,
    moved,
    topology_pair_counts,
    verdict,
)
from policy_sched.plugins.interpodaffinity.scoring import (
    PreferredTerms,
    normalized,
    preferred_terms,
    score,
)

NAME: Final = "InterPodAffinity"

_SKIP_FILTER: Final = PreFilterResult(SKIP)
_ASK_FILTER: Final = PreFilterResult()


class InterPodAffinity:
    """Refuses nodes that break required terms and prefers those that suit preferred ones.

    ``args``: InterPodAffinityArgs as a mapping.
    """

    def __init__(self, args: Mapping[str, Any], handle: Handle) -> None:
        self._table = handle.nodes
        self._counts = handle.cache.counts
        self._carried = self._counts.carried
        self._book = TermCache(handle.nodes, self._counts)
        self._hard_weight = int(args.get("hardPodAffinityWeight", 1))
        self._own_only = bool(args.get("ignorePreferredTermsOfExistingPods", False))

    @hookimpl
    def sign_pod(self) -> Signature:
        """Distinguish pods by their own terms, and by what the terms of others select."""
        return Signature(frozenset(), Scope.CLUSTER, proved=True, keys=(self._key,))

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Pods that come, change labels or go; nodes that come or change labels or taints."""
        pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        own = ActionType.UPDATE_POD_LABEL
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes)),
            ClusterEventWithHint(ClusterEvent(EventResource.UNSCHEDULABLE_POD, own)),
        )

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Count the pods that matter; skip if none can."""
        own: OwnTerms | None = None
        if pod.has_pod_affinity:
            terms = pod.affinity_terms
            if terms.error:
                reason = f"parsing pod: {terms.error}"
                return PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))
            own = self._book.of(terms)
        elif not self._carried.anti_affinity.live:
            return _SKIP_FILTER
        found = topology_pair_counts(self._counts, pod, own)
        if found is None:
            return _SKIP_FILTER
        state.write(found)
        return _ASK_FILTER

    @hookimpl
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Count `other` on the row, too."""
        return self._move(state, pod, other, (row, 1))

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Count `other` on the row no longer."""
        return self._move(state, pod, other, (row, -1))

    @hookimpl
    def filter(self, state: CycleState, rows: Rows) -> FilterResult:
        """Refuse nodes for want of affinity, for anti-affinity, or for that of running pods."""
        found = state.read(TopologyPairCounts)
        return PASSES if found is None else verdict(found, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Add up the weights; skip if there are none."""
        own = self._book.of(pod.affinity_terms) if pod.has_pod_affinity else None
        if own is None or not own.preferred:
            hard = self._hard_weight and self._carried.affinity.live
            if self._own_only or not (hard or self._carried.preferred.live):
                return SKIP
        found = preferred_terms(self._counts, pod, own, self._hard_weight)
        if found is None:
            return SKIP
        state.write(found)
        return SUCCESS

    @hookimpl
    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the sum of weights where the node is."""
        found = state.read(PreferredTerms)
        assert found is not None, "PreScore has counted"
        return score(found, rows)

    @hookimpl
    def normalize_score(self, scores: Scores) -> Scores:
        """Stretch the scores over 0..100."""
        return normalized(scores)

    def _key(self, pod: PodInfo) -> Hashable:
        """Return the pod's terms, namespace and labels; empty while no pod has affinity terms."""
        if pod.has_pod_affinity:
            return (pod.affinity_terms, pod.namespace, pod.labels_key)
        carried = self._carried
        if carried.anti_affinity.live or carried.affinity.live or carried.preferred.live:
            return (pod.namespace, pod.labels_key)
        return None

    def _move(
        self, state: CycleState, pod: PodInfo, other: PodInfo, place: tuple[int, int]
    ) -> Status:
        found = state.read(TopologyPairCounts)
        if found is not None:
            state.write(moved(found, pod, other, place, self._means))
        return SUCCESS

    def _means(self, other: PodInfo, pod: PodInfo) -> list[Domain]:
        """Return the domains of the labels by which `other` wants `pod` to stay away."""
        namespace = self._table.namespaces.get(pod.namespace)
        labels = {} if namespace is None else namespace.metadata.labels
        return [
            self._counts.domains.of(term.topology_key)
            for term in other.affinity_terms.anti_affinity
            if term.matches(pod.namespace, pod.labels, labels)
        ]
