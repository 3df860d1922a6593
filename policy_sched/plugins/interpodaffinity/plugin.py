"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

A node passes the filter if for every label of the required affinity its domain has a pod that all
those terms select (or no such pod exists and the pod selects itself), if its domains have no pod
that its anti-affinity selects, and none whose anti-affinity selects it (kube-scheduler's
interpodaffinity/filtering.go).

The score of a node is, over its topology labels, the sum of the weights in its domain: those of
the pod's preferred terms times the pods they select, those of running pods' preferred terms that
select the pod, and hardPodAffinityWeight for each required affinity term that does
(interpodaffinity/scoring.go).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from policy_sched import framework
from policy_sched.cluster.counts import Domain, PodCounts
from policy_sched.cluster.tables import NodeView
from policy_sched.model import ClusterEventWithHint, PodInfo
from policy_sched.plugins.interpodaffinity import scoring
from policy_sched.plugins.interpodaffinity.events import EVENTS
from policy_sched.plugins.interpodaffinity.filtering import (
    TopologyPairCounts,
    changed_codes,
    moved,
    topology_pair_counts,
    verdict,
)
from policy_sched.plugins.interpodaffinity.terms import OwnTerms, TermCache

NAME: Final = "InterPodAffinity"

_SKIP_FILTER: Final = framework.PreFilterResult(framework.SKIP)
_ASK_FILTER: Final = framework.PreFilterResult()


class InterPodAffinity:
    """Rejects nodes that violate required terms and scores preferred ones.

    ``args``: InterPodAffinityArgs as a mapping.
    """

    def __init__(self, args: Mapping[str, Any], handle: framework.Handle) -> None:
        self._table = handle.nodes
        self._counts = handle.cache.counts
        self._carried = self._counts.carried
        self._bound_with_affinity = handle.pods.with_affinity
        self._book = TermCache(handle.nodes, self._counts)
        self._hard_weight = int(args.get("hardPodAffinityWeight", 1))
        self._own_only = bool(args.get("ignorePreferredTermsOfExistingPods", False))

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Return the signature: the pod's terms, and the fields that others' terms select."""
        key = framework.PodKey(self._key, "has_pod_affinity", (self._bound_with_affinity,))
        return framework.Signature(
            frozenset(),
            framework.Scope.CLUSTER,
            proved=True,
            keys=(key,),
            incremental=self._incremental,
            kernel=framework.RowKernel(normalizes_by_extremes=True),
        )

    @framework.hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods added, relabelled or deleted, and nodes added, relabelled or tainted."""
        return EVENTS

    @framework.hookimpl
    def pre_filter(self, state: framework.CycleState, pod: PodInfo) -> framework.PreFilterResult:
        """Count the selected pods; skip if no term applies."""
        own: OwnTerms | None = None
        if pod.has_pod_affinity:
            terms = pod.affinity_terms
            if terms.error:
                reason = f"parsing pod: {terms.error}"
                return framework.PreFilterResult(
                    framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
                )
            own = self._book.of(terms)
        elif not self._carried.anti_affinity.live:
            return _SKIP_FILTER
        pairs = topology_pair_counts(self._counts, pod, own)
        state.write(pairs)
        return _ASK_FILTER if pairs.domains else _SKIP_FILTER

    @framework.hookimpl
    def add_pod(
        self, state: framework.CycleState, pod: PodInfo, other: PodInfo, row: int
    ) -> framework.Status:
        """Add `other` to the row."""
        return self._move(state, pod, other, (row, 1))

    @framework.hookimpl
    def remove_pod(
        self, state: framework.CycleState, pod: PodInfo, other: PodInfo, row: int
    ) -> framework.Status:
        """Remove `other` from the row."""
        return self._move(state, pod, other, (row, -1))

    @framework.hookimpl
    def filter(
        self, state: framework.CycleState, pod: PodInfo, rows: framework.Rows, nodes: NodeView
    ) -> framework.FilterResult:
        """Reject nodes by affinity, by anti-affinity, or by that of running pods."""
        del pod, nodes
        pairs = state.read(TopologyPairCounts)
        return framework.PASSES if pairs is None else verdict(pairs, rows)

    @framework.hookimpl
    def pre_score(self, state: framework.CycleState, pod: PodInfo) -> framework.Status:
        """Sum the weights; skip if there are none."""
        own = self._book.of(pod.affinity_terms) if pod.has_pod_affinity else None
        if own is None or not own.preferred:
            hard = self._hard_weight and self._carried.affinity.live
            if self._own_only or not (hard or self._carried.preferred.live):
                return framework.SKIP
        terms = scoring.preferred_terms(self._counts, pod, own, self._hard_weight)
        state.write(terms)
        return framework.SUCCESS if terms.weighted else framework.SKIP

    @framework.hookimpl
    def score(
        self, state: framework.CycleState, pod: PodInfo, rows: framework.Rows
    ) -> framework.Scores:
        """Return the sum of weights of the nodes' domains."""
        del pod
        terms = state.read(scoring.PreferredTerms)
        assert terms is not None, "PreScore stored it"
        return scoring.score(terms, rows)

    @framework.hookimpl
    def normalize_score(
        self, state: framework.CycleState, pod: PodInfo, scores: framework.Scores
    ) -> framework.Scores:
        """Scale the scores to 0..100."""
        del state, pod
        return scoring.normalized(scores)

    def _incremental(self, state: framework.CycleState, pod: PodInfo) -> AffinityUpdates | None:
        """Return what brings the results for the pod up to date."""
        del pod
        return AffinityUpdates.of(state, self._counts)

    def _key(self, pod: PodInfo) -> Hashable:
        """Return the pod's terms, namespace and labels; empty if no pod has affinity terms."""
        if pod.has_pod_affinity:
            return (pod.affinity_terms, pod.namespace, pod.labels_key)
        carried = self._carried
        if carried.anti_affinity.live or carried.affinity.live or carried.preferred.live:
            return (pod.namespace, pod.labels_key)
        return None

    def _move(
        self, state: framework.CycleState, pod: PodInfo, other: PodInfo, place: tuple[int, int]
    ) -> framework.Status:
        pairs = state.read(TopologyPairCounts)
        if pairs is not None:
            state.write(moved(pairs, pod, other, place, self._means))
        return framework.SUCCESS

    def _means(self, other: PodInfo, pod: PodInfo) -> list[Domain]:
        """Return the domains in which `other` has anti-affinity to `pod`."""
        namespace = self._table.namespaces.get(pod.namespace)
        labels = {} if namespace is None else namespace.metadata.labels
        return [
            self._counts.domains.of(term.topology_key)
            for term in other.affinity_terms.anti_affinity
            if term.matches(pod.namespace, pod.labels, labels)
        ]


class AffinityUpdates:
    """What updates the results for one pod; either part is None where the plugin skips.

    Theory of operation. Each part keeps to the counts that PreFilter and PreScore found. Which
    counts these are follows from the terms that pods on nodes carry and from the labels of the
    namespaces; ``version`` rises when that changes, and then the plugin is called again.
    """

    __slots__ = ("_counts", "_filter", "_preferred", "_version", "scores")

    def __init__(
        self,
        counts: PodCounts,
        filtering: TopologyPairCounts | None,
        preferred: scoring.PreferredTerms | None,
        sums: framework.GroupedSums | None,
    ) -> None:
        self._counts, self._version = counts, counts.version
        self._filter, self._preferred = filtering, preferred
        self.scores = sums

    @staticmethod
    def of(state: framework.CycleState, counts: PodCounts) -> AffinityUpdates | None:
        """Return what updates the results that belong to a state; None if nothing does."""
        filtering, preferred = state.read(TopologyPairCounts), state.read(scoring.PreferredTerms)
        if filtering is not None and not filtering.in_domains:
            return None
        feasible, sums = state.read(framework.Feasible), None
        if preferred is not None and preferred.weighted and feasible is not None:
            sums = scoring.grouped(preferred, feasible)
            if sums is None:
                return None
        return AffinityUpdates(counts, filtering, preferred, sums)

    def holds(self) -> bool:
        """Return whether PreFilter and PreScore would find the same counts, or skip again."""
        if self._version != self._counts.version:
            return False
        preferred = self._preferred
        return preferred is None or preferred.same_counts()

    def filter(
        self, state: framework.CycleState, rows: Sequence[int]
    ) -> framework.Refiltered | None:
        """Return the rows of domains whose code is another one."""
        del state
        filtering = self._filter
        return framework.SAME_CODES if filtering is None else changed_codes(filtering, rows)
