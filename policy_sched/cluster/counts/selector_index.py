"""Which of many selectors could select a pod: an inverted index from labels to selectors.

Theory of operation: a selector is listed under one requirement that a pod cannot miss: under
each value of an ``In``, else under the key of an ``Exists``, else among those that anything may
match. Looking a pod up costs as much as it has labels, however many selectors there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from policy_sched.model import Selector

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
        found = list(self._anything)
        pairs, keys = self._pairs, self._keys
        for pair in labels.items():
            if pair in pairs:
                found += pairs[pair]
            if pair[0] in keys:
                found += keys[pair[0]]
        return found
