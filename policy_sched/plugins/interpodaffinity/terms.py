"""The affinity terms of a pod, resolved to counts of the pods that they select."""

from __future__ import annotations

from typing import Final

import msgspec

from policy_sched.cluster.counts import Part, PodCounts, PodMatch
from policy_sched.cluster.tables import NodeTable
from policy_sched.model import AffinityTerm, PodTerms

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
        resolved = self._kept.get(terms)
        if resolved is None:
            resolved = self._kept[terms] = self._work_out(terms)
        return resolved

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
        matching = (n for n, ns in self._namespaces.items() if chosen.matches(ns.metadata.labels))
        return term.namespaces.union(matching), term.selector
