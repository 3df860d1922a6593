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

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import (
    Counts,
    Domain,
    DomainScores,
    Part,
    PodCounts,
    PodMatch,
)
from policy_sched.cluster.tables import NodeTable, NodeView
from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    Code,
    Codes,
    CycleState,
    Feasible,
    FilterResult,
    Handle,
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
    ActionType,
    AffinityTerm,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodInfo,
    PodTerms,
)

#: Number of different pods whose terms are cached.
KEPT: Final = 8192


class OwnTerms(msgspec.Struct, frozen=True):
    """A pod's terms, resolved to counts.

    ``affinity``: the pods that all required terms select, None without such terms, and the labels
    of the required domains. ``anti_affinity`` and ``preferred`` term by term.
    """

    affinity: PodMatch | None
    affinity_keys: tuple[str, ...]
    anti_affinity: tuple[tuple[PodMatch, str], ...]
    preferred: tuple[tuple[int, PodMatch, str], ...]


class TermCache:
    """Resolves terms once for equal pods, until namespaces change."""

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._namespaces = table.namespaces
        self._counts = counts
        self._version = -1
        self._kept: dict[PodTerms, OwnTerms] = {}

    def of(self, terms: PodTerms) -> OwnTerms:
        """Return a pod's resolved terms."""
        if self._version != self._counts.namespaces_version or len(self._kept) >= KEPT:
            self._kept.clear()
            self._version = self._counts.namespaces_version
        found = self._kept.get(terms)
        if found is None:
            found = self._kept[terms] = self._work_out(terms)
        return found

    def _work_out(self, terms: PodTerms) -> OwnTerms:
        required = tuple(self._part(t) for t in terms.affinity)
        return OwnTerms(
            affinity=PodMatch(required, terminating=True) if required else None,
            affinity_keys=tuple(dict.fromkeys(t.topology_key for t in terms.affinity)),
            anti_affinity=tuple((self._match(t), t.topology_key) for t in terms.anti_affinity),
            preferred=tuple((w, self._match(t), t.topology_key) for w, t in terms.preferred),
        )

    def _match(self, term: AffinityTerm) -> PodMatch:
        return PodMatch((self._part(term),), terminating=True)

    def _part(self, term: AffinityTerm) -> Part:
        chosen = term.namespace_selector
        if chosen.nothing:
            return term.namespaces, term.selector
        if chosen.matches({}):
            return None, term.selector
        found = (n for n, ns in self._namespaces.items() if chosen.matches(ns.metadata.labels))
        return term.namespaces.union(found), term.selector


EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
AFFINITY: Final = "node(s) didn't match pod affinity rules"

# The highest code of a node wins; the codes are indexes of the statuses.
_EXISTING, _ANTI, _AFFINITY = 1, 2, 3
_STATUSES: Final = (
    Status(Code.UNSCHEDULABLE, (EXISTING,)),
    Status(Code.UNSCHEDULABLE, (ANTI_AFFINITY,)),
    Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (AFFINITY,)),
)

Totals: TypeAlias = dict[str, NDArray[np.int64]]
"""By topology key the count in each domain, shape (domain.count + 1,); copies."""


Tables: TypeAlias = tuple[tuple[Domain, Codes], ...]


class TopologyPairCounts(msgspec.Struct, eq=False):
    """The counts for the filter of this attempt.

    ``existing``: pods with anti-affinity that selects the pod. ``anti_affinity`` and
    ``affinity``: pods that the pod's own terms select. ``alone``: the pod selects itself.
    ``tables``: per topology key the code of each domain, and ``result`` that of all rows; they are
    computed when they are wanted. ``before``: the counts of an equal pod before, until then.
    """

    own: OwnTerms
    domains: dict[str, Domain]
    existing: Totals
    anti_affinity: Totals
    affinity: Totals
    alone: bool
    tables: Tables | None = None
    result: FilterResult | None = None
    before: tuple[Tables, FilterResult] | None = None


def topology_pair_counts(
    counts: PodCounts,
    pod: PodInfo,
    own: OwnTerms | None,
    before: TopologyPairCounts | None = None,
) -> TopologyPairCounts | None:
    """Return the counts for a pod; None if no term applies.

    ``before``: the counts for an equal pod.
    """
    existing: Totals = {}
    domains: dict[str, Domain] = {}
    if counts.carried.anti_affinity.live:
        for carried in counts.carried.anti_affinity.meaning(pod):
            if carried.counts.by_row:
                key = carried.term.topology_key
                domain = counts.domains.of(key)
                totals = carried.counts.by(domain)
                # Nodes without the label are in no domain.
                if domain.complete or totals[:-1].any():
                    domains[key] = domain
                    _add(existing, key, totals)
    if own is None or (own.affinity is None and not own.anti_affinity):
        if not existing:
            return None
        found = TopologyPairCounts(_NO_TERMS, domains, existing, {}, {}, alone=False)
        return _after(before, found)
    anti_affinity: Totals = {}
    for match, key in own.anti_affinity:
        domain = domains[key] = counts.domains.of(key)
        _add(anti_affinity, key, counts.selected.of(match).by(domain))
    affinity: Totals = {}
    alone = False
    if own.affinity is not None:
        selected = counts.selected.of(own.affinity)
        same = before is not None and before.own is own
        alone = before.alone if before is not None and same else own.affinity.selects(pod)
        for key in own.affinity_keys:
            domain = domains[key] = counts.domains.of(key)
            affinity[key] = selected.by(domain).copy()
    found = TopologyPairCounts(own, domains, existing, anti_affinity, affinity, alone)
    return _after(before, found)


def _after(before: TopologyPairCounts | None, found: TopologyPairCounts) -> TopologyPairCounts:
    """Let counts return the result of counts before them if no table has changed."""
    if before is not None:
        if before.tables is not None and before.result is not None:
            found.before = before.tables, before.result
        else:
            found.before = before.before
    return found


def verdict(state: TopologyPairCounts, rows: Rows) -> FilterResult:
    """Return the result of the filter for the rows."""
    if state.tables is None:
        state.tables = _tables(state)
        if state.before is not None and _equal(state.tables, state.before[0]):
            state.tables, state.result = state.before
        state.before = None
    if not state.tables:
        return PASSES
    if rows is None and state.result is not None:
        return state.result
    codes: Codes | None = None
    for domain, table in state.tables:
        found = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
        codes = found if codes is None else np.maximum(codes, found)
    assert codes is not None, "there is a table"
    result = FilterResult.of(codes, *_STATUSES)
    if rows is None:
        codes.flags.writeable = False
        state.result = result
    return result


def _equal(tables: Tables, others: Tables) -> bool:
    return len(tables) == len(others) and all(
        domain is other and table.tobytes() == known.tobytes()
        for (domain, table), (other, known) in zip(tables, others, strict=True)
    )


def moved(
    state: TopologyPairCounts, pod: PodInfo, other: PodInfo, place: tuple[int, int], means: Means
) -> TopologyPairCounts:
    """Return the state with `other` added to a row or removed from it; ``place``: row, 1 or -1.

    ``means`` returns the topology keys of one pod's anti-affinity terms that select another.
    """
    meant = means(other, pod)
    own = state.own
    selected = own.affinity is not None and own.affinity.selects(other)
    if not (meant or selected or any(match.selects(other) for match, _ in own.anti_affinity)):
        return state
    existing, anti_affinity = dict(state.existing), dict(state.anti_affinity)
    affinity, domains = dict(state.affinity), dict(state.domains)
    for domain in meant:
        domains.setdefault(domain.key, domain)
        _shift(existing, domain, place)
    for match, key in own.anti_affinity:
        if match.selects(other):
            _shift(anti_affinity, domains[key], place)
    if selected:
        for key in own.affinity_keys:
            _shift(affinity, domains[key], place)
    return TopologyPairCounts(own, domains, existing, anti_affinity, affinity, state.alone)


Means: TypeAlias = Callable[[PodInfo, PodInfo], list[Domain]]

_NO_TERMS: Final = OwnTerms(None, (), (), ())


def _add(totals: Totals, key: str, more: NDArray[np.int64]) -> None:
    """Add to a copy of a key's totals; the counts keep changing the original."""
    totals[key] = totals[key] + more if key in totals else more.copy()


def _shift(totals: Totals, domain: Domain, place: tuple[int, int]) -> None:
    row, by = place
    known = totals.get(domain.key)
    changed = np.zeros(domain.count + 1, np.int64) if known is None else known.copy()
    changed[domain.ids[row]] += by
    totals[domain.key] = changed


def _tables(state: TopologyPairCounts) -> Tables:
    """Return the code of each domain for each topology key; the last is of nodes without it.

    Keys by which no node is rejected are left out.
    """
    first = state.alone
    for totals in state.affinity.values():
        first = first and not np.logical_or.reduce(totals[:-1])
    tables = []
    for key, domain in state.domains.items():
        # Bytes, which a fraction of the time is enough for: True is 1, the code _EXISTING.
        codes: NDArray[np.int8] | None = None
        if key in state.existing:
            codes = (state.existing[key] > 0).view(np.int8)
        if key in state.anti_affinity:
            codes = _highest(codes, state.anti_affinity[key] > 0, _ANTI)
        if key in state.affinity and not first:
            codes = _highest(codes, state.affinity[key] <= 0, _AFFINITY)
        outside = _AFFINITY if key in state.affinity else 0
        if codes is None:
            codes = np.zeros(domain.count + 1, np.int8)
        codes[-1] = 0 if domain.complete else outside
        if np.logical_or.reduce(codes):
            codes[-1] = outside
            tables.append((domain, codes.astype(np.int16)))
    return tuple(tables)


def _highest(
    codes: NDArray[np.int8] | None, rejected: NDArray[np.bool_], code: int
) -> NDArray[np.int8]:
    """Return the codes by domain with another one, which is higher than all."""
    others = rejected.view(np.int8)
    others *= np.int8(code)
    return others if codes is None else np.maximum(codes, others, out=others)


BEST = 100


class PreferredTerms(msgspec.Struct, frozen=True):
    """Per topology key the score of a node in each domain, shape (domain.count + 1,).

    ``by_domain``: the same where there is one key with far fewer values than nodes.
    """

    tables: tuple[tuple[Domain, NDArray[np.int64]], ...]
    by_domain: DomainScores | None = None


def preferred_terms(
    counts: PodCounts,
    pod: PodInfo,
    own: OwnTerms | None,
    hard_weight: int,
    before: PreferredTerms | None = None,
) -> PreferredTerms | None:
    """Return the weights for a pod; None if no term applies.

    ``before``: the weights for an equal pod.
    """
    tables: dict[str, tuple[Domain, NDArray[np.int64]]] = {}
    for found, key, weight in _weighted(counts, pod, own, hard_weight):
        if key in tables:
            domain, table = tables[key]
            table += found.by(domain) if weight == 1 else found.by(domain) * weight
        else:
            domain = counts.domains.of(key)
            tables[key] = domain, found.by(domain) * weight
    if not tables:
        return None
    for _, table in tables.values():
        table[-1] = 0  # a node without the label is in no domain
    known = None if before is None else before.by_domain
    if len(tables) > 1 or known is None or known.domain is not domain:
        if len(tables) > 1 or not DomainScores.pays(domain):
            return PreferredTerms(tuple(tables.values()))
        return PreferredTerms((), DomainScores(domain, table))
    by_domain = known.changed(table)
    return before if by_domain is known else PreferredTerms((), by_domain)


def _weighted(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None, hard_weight: int
) -> list[tuple[Counts, str, int]]:
    """Return what is counted for the pod, by which topology key, and its weight."""
    found = []
    if own is not None:
        for weight, match, key in own.preferred:
            selected = counts.selected.of(match)
            if selected.by_row:
                found.append((selected, key, weight))
    carried = counts.carried
    for kind, weight in ((carried.preferred, 1), (carried.affinity, hard_weight)):
        if weight and kind.live:
            found += [
                (one.counts, one.term.topology_key, weight)
                for one in kind.meaning(pod)
                if one.counts.by_row
            ]
    return found


def score(state: PreferredTerms, rows: Rows) -> Scores:
    """Return the raw scores of the rows; they may be negative."""
    if state.by_domain is not None:
        scores = state.by_domain.raw()
        return scores if rows is None else scores[rows]
    total: Scores | None = None
    for domain, table in state.tables:
        part = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
        total = part if total is None else total + part
    assert total is not None, "without tables PreScore skips"
    return total


def normalized(scores: Scores) -> Scores:
    """Scale the raw scores of all feasible nodes to 0..100, truncating as Go does."""
    fewest, most = int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))
    if most == fewest:
        return np.zeros(scores.size, np.int64)
    share: NDArray[np.float64] = np.subtract(scores, fewest, dtype=np.float64)
    share /= most - fewest
    share *= BEST
    return share.astype(np.int64)


NAME: Final = "InterPodAffinity"

_SKIP_FILTER: Final = PreFilterResult(SKIP)
_ASK_FILTER: Final = PreFilterResult()


class InterPodAffinity:
    """Rejects nodes that violate required terms and scores preferred ones.

    ``args``: InterPodAffinityArgs as a mapping.
    """

    def __init__(self, args: Mapping[str, Any], handle: Handle) -> None:
        self._table = handle.nodes
        self._counts = handle.cache.counts
        self._carried = self._counts.carried
        self._bound_with_affinity = handle.pods.with_affinity
        self._book = TermCache(handle.nodes, self._counts)
        self._hard_weight = int(args.get("hardPodAffinityWeight", 1))
        self._own_only = bool(args.get("ignorePreferredTermsOfExistingPods", False))

    @hookimpl
    def sign_pod(self) -> Signature:
        """Return the signature: the pod's terms, and the fields that others' terms select."""
        key = PodKey(self._key, "has_pod_affinity", (self._bound_with_affinity,))
        return Signature(
            frozenset(), Scope.CLUSTER, proved=True, normalizes_by_extremes=True, keys=(key,)
        )

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods added, relabelled or deleted, and nodes added, relabelled or tainted."""
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
        """Count the selected pods; skip if no term applies."""
        own: OwnTerms | None = None
        if pod.has_pod_affinity:
            terms = pod.affinity_terms
            if terms.error:
                reason = f"parsing pod: {terms.error}"
                return PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))
            own = self._book.of(terms)
        elif not self._carried.anti_affinity.live:
            return _SKIP_FILTER
        found = topology_pair_counts(self._counts, pod, own, state.read(TopologyPairCounts))
        if found is None:
            return _SKIP_FILTER
        state.write(found)
        return _ASK_FILTER

    @hookimpl
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Add `other` to the row."""
        return self._move(state, pod, other, (row, 1))

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Remove `other` from the row."""
        return self._move(state, pod, other, (row, -1))

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows, nodes: NodeView) -> FilterResult:
        """Reject nodes by affinity, by anti-affinity, or by that of running pods."""
        del pod, nodes
        found = state.read(TopologyPairCounts)
        return PASSES if found is None else verdict(found, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Sum the weights; skip if there are none."""
        own = self._book.of(pod.affinity_terms) if pod.has_pod_affinity else None
        if own is None or not own.preferred:
            hard = self._hard_weight and self._carried.affinity.live
            if self._own_only or not (hard or self._carried.preferred.live):
                return SKIP
        before = state.read(PreferredTerms)
        found = preferred_terms(self._counts, pod, own, self._hard_weight, before)
        if found is None:
            return SKIP
        state.write(found)
        return SUCCESS

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """Return the sum of weights of the nodes' domains."""
        del pod
        found = state.read(PreferredTerms)
        assert found is not None, "PreScore stored it"
        return score(found, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Scale the scores to 0..100."""
        del pod
        found, feasible = state.read(PreferredTerms), state.read(Feasible)
        if found is None or feasible is None or found.by_domain is None:
            return normalized(scores)
        if scores.size != feasible.rows.size:
            return normalized(scores)  # some of them, with the lowest and the highest
        return found.by_domain.normalized(feasible.rows, normalized)

    def _key(self, pod: PodInfo) -> Hashable:
        """Return the pod's terms, namespace and labels; empty if no pod has affinity terms."""
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
        """Return the domains in which `other` has anti-affinity to `pod`."""
        namespace = self._table.namespaces.get(pod.namespace)
        labels = {} if namespace is None else namespace.metadata.labels
        return [
            self._counts.domains.of(term.topology_key)
            for term in other.affinity_terms.anti_affinity
            if term.matches(pod.namespace, pod.labels, labels)
        ]
