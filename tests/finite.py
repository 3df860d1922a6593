"""Finite sets of values whose members have numbers: one draw of Hypothesis picks a whole value.

A dictionary of five fields that is drawn field by field takes Hypothesis ten draws, and most of
the time of a test. The number 0 is the simplest member, so examples shrink as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Generic, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Finite(Generic[T]):
    """The members ``at(0)`` to ``at(size - 1)``."""

    size: int
    at: Callable[[int], T]

    def strategy(self) -> st.SearchStrategy[T]:
        """Return the strategy that draws a member."""
        assert self.size <= 2**24, "of more numbers than these, Hypothesis prefers the small ones"
        return st.integers(0, self.size - 1).map(self.at)

    def map(self, function: Callable[[T], S]) -> Finite[S]:
        """Return what a function makes of the members."""
        return Finite(self.size, lambda number: function(self.at(number)))


def of(*values: T) -> Finite[T]:
    """Return these values."""
    return Finite(len(values), values.__getitem__)


def fields(
    required: Mapping[str, Finite[Any]], optional: Mapping[str, Finite[Any]] | None = None
) -> Finite[dict[str, Any]]:
    """Return dictionaries; each optional field is missing in one half of them."""
    parts = [(name, one.size, 0, one.at) for name, one in required.items()]
    parts += [(name, 2 * one.size, one.size, one.at) for name, one in (optional or {}).items()]

    def at(number: int) -> dict[str, Any]:
        found = {}
        for name, size, missing, member in parts:
            number, place = divmod(number, size)
            if place >= missing:
                found[name] = member(place - missing)
        return found

    return Finite(prod(size for _, size, _, _ in parts), at)


def either(*parts: Finite[Any]) -> Finite[Any]:
    """Return the members of several sets; each set is as frequent as the others."""

    def at(number: int) -> Any:
        number, place = divmod(number, len(parts))
        return parts[place].at(number % parts[place].size)

    return Finite(len(parts) * max(part.size for part in parts), at)


def lists(item: Finite[T], most: int, least: int = 0) -> Finite[list[T]]:
    """Return lists of so many items; each length is as frequent as the others."""
    lengths = most - least + 1

    def at(number: int) -> list[T]:
        number, length = divmod(number, lengths)
        found = []
        for _ in range(least + length):
            number, place = divmod(number, item.size)
            found.append(item.at(place))
        return found

    return Finite(lengths * item.size**most, at)


@cache
def numbers(count: int) -> st.SearchStrategy[int]:
    """Return the strategy of the numbers below a count, which is made once."""
    return st.integers(0, count - 1)


def chooser(draw: st.DrawFn) -> Callable[[Sequence[T]], T]:
    """Return a function that draws one of some values: `st.sampled_from` without its set-up."""

    def choose(options: Sequence[T]) -> T:
        return options[draw(numbers(len(options)))]

    return choose
