"""The affinity terms that running pods carry: which of them mean a given pod, and where they are.

Theory of operation: pods of one workload carry equal terms, so each different term is kept once,
with a count of its carriers by row. A term without carriers stays listed with an empty count until
most terms are like that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from policy_sched.cluster.counts.counts import Counts
from policy_sched.cluster.counts.selector_counts import SelectorIndex
from policy_sched.model import AffinityTerm, Namespace, PodInfo, PodTerms

#: For how many sets of labels it is remembered which terms mean them.
LABEL_SETS: Final = 8192
#: Idle terms below this number are never swept out.
IDLE: Final = 256
#: For how many pods with different terms it is remembered where they are listed.
POD_TERMS: Final = 8192

_NO_LABELS: Final[Mapping[str, str]] = {}


class Carried:
    """One term and how much of it is on each row: carriers, or the sum of their weights."""

    __slots__ = ("counts", "term")

    def __init__(self, term: AffinityTerm) -> None:
        self.term = term
        self.counts = Counts()


Resolved: TypeAlias = tuple[tuple["TermCounts", Carried, int], ...]
"""The listed terms of one pod, each with its kind and what a pod counts for."""


class TermCounts:
    """Terms of one kind, found by the pods that they mean."""

    def __init__(
        self, namespaces: Mapping[str, Namespace], resolved: dict[PodTerms, Resolved]
    ) -> None:
        self._resolved = resolved
        """Cleared when terms are dropped."""
        self.live = 0
        """How many terms have a count on any row."""
        self.version = 0
        """Rises when another term has a count, or none any more, or may mean other pods."""
        self._namespaces = namespaces
        self._terms: dict[AffinityTerm, Carried] = {}
        self._index: SelectorIndex[Carried] = SelectorIndex()
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Carried, ...]] = {}

    def __iter__(self) -> Iterator[Carried]:
        return iter(self._terms.values())

    def add(self, term: AffinityTerm, row: int, amount: int) -> None:
        """Add to the count of a term on a row."""
        self.add_to(self.carried(term), row, amount)

    def add_to(self, carried: Carried, row: int, amount: int) -> None:
        """Add to the count of a listed term on a row."""
        by_row = carried.counts.by_row
        before = bool(by_row)
        carried.counts.add(row, amount)
        if bool(by_row) is not before:
            self.live += -1 if before else 1
            self.version += 1

    def carried(self, term: AffinityTerm) -> Carried:
        """Return a term that is listed, or is from now on."""
        return self._terms.get(term) or self._list(term)

    def meaning(self, pod: PodInfo) -> tuple[Carried, ...]:
        """Return the terms that mean the pod; some may have nothing in their count."""
        place = (pod.namespace, pod.labels_key)
        terms = self._known.get(place)
        if terms is None:
            if len(self._known) >= LABEL_SETS:
                self._known.clear()
            namespace = self._namespaces.get(pod.namespace)
            labels = _NO_LABELS if namespace is None else namespace.metadata.labels
            terms = self._known[place] = tuple(
                carried
                for carried in self._index.candidates(pod.labels)
                if carried.term.matches(pod.namespace, pod.labels, labels)
            )
        return terms

    def forget_meanings(self) -> None:
        """Look every pod up anew: the labels of a namespace have changed."""
        self._known.clear()
        self.version += 1

    def _list(self, term: AffinityTerm) -> Carried:
        if len(self._terms) > IDLE and len(self._terms) > 2 * self.live:
            self._sweep()
        carried = self._terms[term] = Carried(term)
        self._index.add(term.selector, carried)
        self._known.clear()
        self.version += 1
        return carried

    def _sweep(self) -> None:
        self._resolved.clear()
        self._terms = {t: c for t, c in self._terms.items() if c.counts.by_row}
        self._index = SelectorIndex()
        for term, carried in self._terms.items():
            self._index.add(term.selector, carried)


class CarriedTerms:
    """What the pods on nodes require of others: required anti-affinity and affinity, preferences.

    Counts of the required terms are carriers; counts of ``preferred`` are sums of weights, those
    of anti-affinity below zero.
    """

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self._resolved: dict[PodTerms, Resolved] = {}
        self.anti_affinity = TermCounts(namespaces, self._resolved)
        self.affinity = TermCounts(namespaces, self._resolved)
        self.preferred = TermCounts(namespaces, self._resolved)
        self.kinds: Final = (self.anti_affinity, self.affinity, self.preferred)

    def count(self, row: int, terms: PodTerms, sign: int) -> None:
        """Count a pod's terms on a live row (``sign`` 1) or take them away (-1)."""
        known = self._resolved.get(terms)
        if known is not None:
            for kind, carried, amount in known:
                kind.add_to(carried, row, sign * amount)
            return
        weighted = [(self.anti_affinity, term, 1) for term in terms.anti_affinity]
        weighted += [(self.affinity, term, 1) for term in terms.affinity]
        weighted += [(self.preferred, term, weight) for weight, term in terms.preferred]
        for kind, term, amount in weighted:
            kind.add(term, row, sign * amount)
        listed = tuple((kind, kind.carried(term), amount) for kind, term, amount in weighted)
        if all(carried.counts.by_row for _, carried, _ in listed):  # no other is sure to be listed
            if len(self._resolved) >= POD_TERMS:
                self._resolved.clear()
            self._resolved[terms] = listed
