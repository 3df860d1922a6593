"""A pod's own affinity terms with their namespaces worked out, ready to be counted.

A namespaceSelector of the pod that is placed means the namespaces that exist now and have the
labels. One that namespaces without any labels meet (an empty one, or one of NotIn and DoesNotExist
alone) means every namespace, existing or not: kube-scheduler 1.36 adds the names of the selected
namespaces to the term, does not drop the selector as it means to, and asks it about no labels
(interpodaffinity/plugin.go). Terms of running pods are matched the other way round, see
cluster/carried_terms.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.cluster.counts import Part, PodCounts, PodMatch
from policy_sched.cluster.tables import NodeTable
from policy_sched.model import AffinityTerm, PodTerms

#: How many different pods' terms are kept.
KEPT: Final = 8192


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """What a pod asks of the pods around it.

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
