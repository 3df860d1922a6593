"""How many pods that a selector selects run on each node, kept up to date for every selector.

Theory of operation: a selector is counted from its first use; the count
starts from the columns of the pod table and follows each pod that comes or goes. Which counts a
pod belongs to is looked up by its labels and remembered, for pods with equal labels are many.
The least recently used selectors are dropped when there are too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts.counts import Counts
from policy_sched.cluster.tables import PodTable
from policy_sched.model import PodInfo, Requirement, Selector

T = TypeVar("T")


class SelectorIndex(Generic[T]):
    """Items, each under a selector."""

    __slots__ = ("_anything", "_keys", "_pairs")

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], list[T]] = {}
        self._keys: dict[str, list[T]] = {}
        self._anything: list[T] = []

    def add(self, selector: Selector, item: T) -> None:
        """List an item; under a selector that selects nothing it is never found."""
        if selector.nothing:
            return
        for requirement in selector.requirements:
            if requirement.operator == "In":
                for value in dict.fromkeys(requirement.values):
                    self._pairs.setdefault((requirement.key, value), []).append(item)
                return
        for requirement in selector.requirements:
            if requirement.operator == "Exists":
                self._keys.setdefault(requirement.key, []).append(item)
                return
        self._anything.append(item)

    def candidates(self, labels: Mapping[str, str]) -> list[T]:
        """Return the items whose selector could select these labels; most will."""
        items = list(self._anything)
        pairs, keys = self._pairs, self._keys
        for pair in labels.items():
            if pair in pairs:
                items += pairs[pair]
            if pair[0] in keys:
                items += keys[pair[0]]
        return items


#: How many selectors are counted at most.
SELECTORS: Final = 1024
#: For how many sets of labels it is remembered which counts they belong to.
LABEL_SETS: Final = 8192

Part: TypeAlias = tuple[frozenset[str] | None, Selector]
"""Namespaces (None: every one) and what is selected in them."""


class PodMatch:
    """Which pods are counted: those that every part selects.

    ``terminating``: whether pods that are being deleted count, too. Equal by value; hashed once.
    """

    __slots__ = ("_hash", "parts", "terminating")

    def __init__(self, parts: tuple[Part, ...], *, terminating: bool) -> None:
        self.parts = parts
        self.terminating = terminating
        self._hash = hash((parts, terminating))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodMatch) and (
            self is other or (self.parts, self.terminating) == (other.parts, other.terminating)
        )

    def selects(self, pod: PodInfo) -> bool:
        """Return whether every part selects the pod, terminating or not."""
        return all(
            (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in self.parts
        )


_Place: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""What decides which counts a pod belongs to: its namespace and labels."""


class SelectorCounts:
    """Counts by PodMatch over the rows of one node table."""

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self.by_match: dict[PodMatch, Counts] = {}
        """The counts that are kept; to be read only."""
        self.version = 0
        """Rises when counts are dropped: those are not kept up to date any more."""
        self._index: SelectorIndex[PodMatch] = SelectorIndex()
        self._known: dict[_Place, tuple[tuple[Counts, bool], ...]] = {}

    def __iter__(self) -> Iterator[tuple[PodMatch, Counts]]:
        return iter(self.by_match.items())

    def of(self, match: PodMatch) -> Counts:
        """Return the counts of the pods that match, counted on first use."""
        counts = self.by_match.get(match)
        if counts is None:
            return self._start(match)
        if len(self.by_match) > SELECTORS // 2:
            self.by_match[match] = self.by_match.pop(match)
        return counts

    def count(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod on a live row (``sign`` 1) or take it away (-1)."""
        counts_of = self._known.get((pod.namespace, pod.labels_key))
        for counts, terminating in self._find(pod) if counts_of is None else counts_of:
            if terminating or not pod.terminating:
                counts.add(row, sign)

    def _find(self, pod: PodInfo) -> tuple[tuple[Counts, bool], ...]:
        if len(self._known) >= LABEL_SETS:
            self._known.clear()
        counts_of = tuple(
            (self.by_match[match], match.terminating)
            for match in dict.fromkeys(self._index.candidates(pod.labels))
            if match.selects(pod)
        )
        self._known[pod.namespace, pod.labels_key] = counts_of
        return counts_of

    def _start(self, match: PodMatch) -> Counts:
        if len(self.by_match) >= SELECTORS:
            self.version += 1
            for old in list(self.by_match)[: SELECTORS // 4]:
                self.by_match.pop(old).forget(())
            self._index = SelectorIndex()
            for kept in self.by_match:
                self._list(kept)
        counts = self.by_match[match] = Counts()
        self._list(match)
        self._known.clear()
        rows, amounts = np.unique(self._rows(match), return_counts=True)
        counts.by_row = dict(zip(rows.tolist(), amounts.tolist(), strict=True))
        return counts

    def _list(self, match: PodMatch) -> None:
        """List a match under its most telling part."""
        if any(selector.nothing for _, selector in match.parts):
            return
        selectors = [selector for _, selector in match.parts]
        telling = [s for s in selectors if any(r.operator == "In" for r in s.requirements)]
        self._index.add((telling or selectors)[0], match)

    def _rows(self, match: PodMatch) -> NDArray[np.intp]:
        """Return the node row of each pod that counts, from the pod table's columns."""
        pods = self._pods
        nodes: NDArray[np.intp] = pods.node.values[: pods.n]
        chosen = nodes >= 0
        if not match.terminating:
            chosen &= ~pods.lookup(("terminating",)).values[: pods.n]
        for namespaces, selector in match.parts:
            if selector.nothing:
                return nodes[:0]
            if namespaces is not None:
                chosen &= self._among(("namespace",), namespaces)
            for requirement in selector.requirements:
                chosen &= self._meets(requirement)
        return nodes[chosen]

    def _meets(self, requirement: Requirement) -> NDArray[np.bool_]:
        key = ("label", requirement.key)
        match requirement.operator:
            case "In":
                return self._among(key, requirement.values)
            case "NotIn":
                return ~self._among(key, requirement.values)
        has: NDArray[np.bool_] = self._pods.lookup(key).values[: self._pods.n] != 0
        return has if requirement.operator == "Exists" else ~has

    def _among(
        self, key: tuple[str, ...], texts: frozenset[str] | tuple[str, ...]
    ) -> NDArray[np.bool_]:
        values = self._pods.lookup(key).values[: self._pods.n]  # first: it may give new codes
        codes = [self._pods.strings.find(text) for text in texts]
        flags: NDArray[np.bool_] = values == codes[0] if len(codes) == 1 else np.isin(values, codes)
        return flags  # a comparison takes a tenth of the time of isin
