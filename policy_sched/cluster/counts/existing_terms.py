"""The affinity terms that running pods carry: which of them mean a given pod, and where they are.

Theory of operation: pods of one workload carry equal terms, so each different term is kept once,
with a count of its carriers by row. A term without carriers stays listed with an empty count until
most terms are like that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from policy_sched.cluster.counts.counts import Counts
from policy_sched.cluster.counts.selector_counts import SelectorIndex
from policy_sched.model import AffinityTerm, Namespace, PodInfo, PodTerms

#: For how many sets of labels it is remembered which terms mean them.
LABEL_SETS: Final = 8192
#: Idle terms below this number are never swept out.
IDLE: Final = 256

_NO_LABELS: Final[Mapping[str, str]] = {}


class Carried:
    """One term and how much of it is on each row: carriers, or the sum of their weights."""

    __slots__ = ("counts", "term")

    def __init__(self, term: AffinityTerm) -> None:
        self.term = term
        self.counts = Counts()


class TermCounts:
    """Terms of one kind, found by the pods that they mean.

    ``live``: how many terms have a count on any row.
    """

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self.live = 0
        self._namespaces = namespaces
        self._terms: dict[AffinityTerm, Carried] = {}
        self._index: SelectorIndex[Carried] = SelectorIndex()
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Carried, ...]] = {}

    def __iter__(self) -> Iterator[Carried]:
        return iter(self._terms.values())

    def add(self, term: AffinityTerm, row: int, amount: int) -> None:
        """Add to the count of a term on a row."""
        carried = self._terms.get(term) or self._list(term)
        by_row = carried.counts.by_row
        before = bool(by_row)
        carried.counts.add(row, amount)
        self.live += bool(by_row) - before

    def meaning(self, pod: PodInfo) -> tuple[Carried, ...]:
        """Return the terms that mean the pod; some may have nothing in their count."""
        place = (pod.namespace, pod.labels_key)
        found = self._known.get(place)
        if found is None:
            if len(self._known) >= LABEL_SETS:
                self._known.clear()
            namespace = self._namespaces.get(pod.namespace)
            labels = _NO_LABELS if namespace is None else namespace.metadata.labels
            found = self._known[place] = tuple(
                carried
                for carried in self._index.candidates(pod.labels)
                if carried.term.matches(pod.namespace, pod.labels, labels)
            )
        return found

    def forget_meanings(self) -> None:
        """Look every pod up anew: the labels of a namespace have changed."""
        self._known.clear()

    def _list(self, term: AffinityTerm) -> Carried:
        if len(self._terms) > IDLE and len(self._terms) > 2 * self.live:
            self._sweep()
        carried = self._terms[term] = Carried(term)
        self._index.add(term.selector, carried)
        self._known.clear()
        return carried

    def _sweep(self) -> None:
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
        self.anti_affinity = TermCounts(namespaces)
        self.affinity = TermCounts(namespaces)
        self.preferred = TermCounts(namespaces)
        self.kinds: Final = (self.anti_affinity, self.affinity, self.preferred)

    def count(self, row: int, terms: PodTerms, sign: int) -> None:
        """Count a pod's terms on a live row (``sign`` 1) or take them away (-1)."""
        for term in terms.anti_affinity:
            self.anti_affinity.add(term, row, sign)
        for term in terms.affinity:
            self.affinity.add(term, row, sign)
        for weight, term in terms.preferred:
            self.preferred.add(term, row, sign * weight)
