"""Required pod affinity and anti-affinity: which nodes are near pods that must, or must not, be.

A node passes if for every label of the required affinity its domain has a pod that all those
terms mean (or no such pod exists and the pod means itself), if its domains have no pod that its
anti-affinity means, and none whose anti-affinity means it (kube-scheduler's
interpodaffinity/filtering.go).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain, Part, PodCounts, PodMatch
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import PASSES, Code, Codes, FilterResult, Rows, Status
from policy_sched.model import AffinityTerm, PodInfo, PodTerms

#: How many different pods' terms are kept.
KEPT: Final = 8192


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """What a pod requires of the pods around it.

    ``affinity``: the pods that all required terms mean, None without such terms, and the labels
    by which one of them must be near. ``anti_affinity`` and ``preferred`` term by term.
    """

    affinity: PodMatch | None
    affinity_keys: tuple[str, ...]
    anti_affinity: tuple[tuple[PodMatch, str], ...]
    preferred: tuple[tuple[int, PodMatch, str], ...]


class TermCache:
    """Works terms out once for equal pods, until namespaces change."""

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._namespaces = table.namespaces
        self._counts = counts
        self._version = -1
        self._kept: dict[PodTerms, OwnTerms] = {}

    def of(self, terms: PodTerms) -> OwnTerms:
        """Return a pod's terms, worked out."""
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

# A higher code is looked at first; the codes are numbers of the statuses.
_EXISTING, _ANTI, _AFFINITY = 1, 2, 3
_STATUSES: Final = (
    Status(Code.UNSCHEDULABLE, (EXISTING,)),
    Status(Code.UNSCHEDULABLE, (ANTI_AFFINITY,)),
    Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (AFFINITY,)),
)

Totals: TypeAlias = dict[str, NDArray[np.int64]]
"""By topology key how many there are in each domain, shape (domain.count + 1,); copies."""


@dataclass(slots=True)
class TopologyPairCounts:
    """The pods that matter to the filter of this attempt.

    ``existing``: carriers of anti-affinity that means the pod. ``anti_affinity`` and
    ``affinity``: pods that the pod's own terms mean. ``alone``: the pod means itself.
    """

    own: OwnTerms
    domains: dict[str, Domain]
    existing: Totals
    anti_affinity: Totals
    affinity: Totals
    alone: bool
    tables: tuple[tuple[Domain, Codes], ...] | None = None
    """Per topology key the code of each domain, worked out at the first filter."""


def topology_pair_counts(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None
) -> TopologyPairCounts | None:
    """Count for a pod; None if nothing concerns it."""
    existing: Totals = {}
    domains: dict[str, Domain] = {}
    if counts.carried.anti_affinity.live:
        for carried in counts.carried.anti_affinity.meaning(pod):
            if carried.counts.by_row:
                key = carried.term.topology_key
                domain = counts.domains.of(key)
                totals = carried.counts.by(domain)
                if totals[:-1].any():  # nodes without the label are in no domain
                    domains[key] = domain
                    _add(existing, key, totals)
    if own is None or (own.affinity is None and not own.anti_affinity):
        if not existing:
            return None
        return TopologyPairCounts(_NO_TERMS, domains, existing, {}, {}, alone=False)
    anti_affinity: Totals = {}
    for match, key in own.anti_affinity:
        domain = domains[key] = counts.domains.of(key)
        _add(anti_affinity, key, counts.selected.of(match).by(domain))
    affinity: Totals = {}
    alone = False
    if own.affinity is not None:
        found = counts.selected.of(own.affinity)
        alone = own.affinity.selects(pod)
        for key in own.affinity_keys:
            domain = domains[key] = counts.domains.of(key)
            affinity[key] = found.by(domain).copy()
    return TopologyPairCounts(own, domains, existing, anti_affinity, affinity, alone)


def verdict(state: TopologyPairCounts, rows: Rows) -> FilterResult:
    """Return the filter's answer for the rows."""
    if state.tables is None:
        state.tables = _tables(state)
    codes: Codes | None = None
    for domain, table in state.tables:
        ids = domain.ids if rows is None else domain.ids[rows]
        found: Codes = table.take(ids, mode="clip")
        codes = found if codes is None else np.maximum(codes, found, out=codes)
    if codes is None:
        return PASSES
    return FilterResult.of(codes, *_STATUSES)


def moved(
    state: TopologyPairCounts, pod: PodInfo, other: PodInfo, place: tuple[int, int], means: Means
) -> TopologyPairCounts:
    """Return the state as if `other` had come to a row or left it; ``place``: row, 1 or -1.

    ``means`` tells for which topology keys an anti-affinity term of one pod means another.
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
    """Add to the totals of a key, which are never the array that the counts go on changing."""
    totals[key] = totals[key] + more if key in totals else more.copy()


def _shift(totals: Totals, domain: Domain, place: tuple[int, int]) -> None:
    row, by = place
    known = totals.get(domain.key)
    changed = np.zeros(domain.count + 1, np.int64) if known is None else known.copy()
    changed[domain.ids[row]] += by
    totals[domain.key] = changed


def _tables(state: TopologyPairCounts) -> tuple[tuple[Domain, Codes], ...]:
    """Return the code of each domain for each topology key; the last is of nodes without it.

    Keys by which no node is refused are left out.
    """
    first = state.alone and not any(bool(t[:-1].any()) for t in state.affinity.values())
    tables = []
    for key, domain in state.domains.items():
        table = np.zeros(domain.count + 1, np.int16)
        for totals, code in ((state.existing, _EXISTING), (state.anti_affinity, _ANTI)):
            if key in totals:
                np.maximum(table, (totals[key] > 0) * np.int16(code), out=table)
        table[-1] = 0
        if key in state.affinity:
            if not first:
                table[state.affinity[key] <= 0] = _AFFINITY
            table[-1] = _AFFINITY
        if table[:-1].any() or (table[-1] and not domain.complete):
            tables.append((domain, table))
    return tuple(tables)
