"""Pods and nodes at random: examples that are tried where the solver finds none, or gives up.

What is drawn is mostly plain, near what a claim names, and the same each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import z3

from policy_sched.prove.solving import Question
from policy_sched.prove.terms import Code, is_term, parts_of, texts_in

Leaves = Mapping[tuple[Any, ...], Any]
"""The value of each constant of a model; None is a text that is missing."""
#: What is tried beside what is named.
_TEXTS: Final = ("a", "b", "a,b", "1", "7", "1.2.0", "2.0.0", "yes", "true", "owner")
_NUMBERS: Final = (0, 0, 1, 2, 10, 100, 1000, 4000, 100_000, 1_000_000, 2**30)
#: Draws of one claim: of all pods and nodes, and of those that come near what is asked.
DRAWS: Final = 300
_DURATION: Final = re.compile(r"(\d{1,6})([smh])")
NOW: Final = ("now",)
"""What the hour of an example is called."""


class Draws:
    """Values of constants, drawn near the numbers and texts of a question."""

    def __init__(self, terms: list[Any], constants: Sequence[Any] = ()) -> None:
        """``constants``: texts and numbers that policies name."""
        self._random = Random(7)  # noqa: S311  # examples, no secrets
        named = [text for text in constants if isinstance(text, str)]
        self._texts = [text for text in (*texts_in(terms), *named) if len(text) < 64]
        numbers = {p.term.as_long() for p in parts_of(terms) if z3.is_int_value(p.term)}
        numbers |= {number for number in constants if type(number) is int}
        self._written = [str(number) for number in constants if not isinstance(number, str)]
        self._written += [
            moment.strftime("%Y-%m-%dT%H:%M:%SZ") for text in named for moment in _moments(text)
        ]
        near = sorted({n + by for n in numbers for by in (-1, 0, 1) if abs(n) < 2**62})
        self._numbers = [*near, *_NUMBERS]
        self.draw_texts()

    def draw_texts(self) -> None:
        """Choose the texts of what is drawn next: few, as it matters which are equal."""
        self._drawn = self._random.choices([*self._texts, *_TEXTS], k=2)
        if self._written:
            written, numbers = self._random.choices(self._written, k=2), map(str, self._numbers)
            written += self._random.choices([*numbers], k=2)
            self._drawn += [*written, ",".join(written[1:3])]

    def value(self, leaf: Any, key: tuple[Any, ...], plain: float) -> Any:
        """Return a value for a constant; ``plain``: how often it is absent, empty, or 0."""
        random = self._random
        if not is_term(leaf) and not isinstance(leaf, Code):
            return leaf
        if random.random() < plain:
            return plainest(leaf, key)
        if isinstance(leaf, Code) or z3.is_string(leaf):
            return random.choice(self._drawn)
        if z3.is_bool(leaf):
            return random.random() < 0.5
        if key[-1] in ("length", "podCount"):
            return random.randrange(4)
        return random.choice(self._numbers)


def _moments(text: str) -> Iterator[datetime]:
    """Yield moments that are as long before the time of an example as a text says, and nearly."""
    found = _DURATION.fullmatch(text)
    for off in (0, 1) if found else ():
        unit = {"s": 1, "m": 60, "h": 3600}[found[2]]  # type: ignore[index]  # it matches
        yield datetime(2026, 1, 1, 12, 30) - timedelta(seconds=int(found[1]) * unit - off)  # type: ignore[index]


def plainest(leaf: Any, key: tuple[Any, ...]) -> Any:
    """Return the plainest value of a constant."""
    if isinstance(leaf, Code):
        return None
    if z3.is_string(leaf):
        words = {"name": "a", "namespace": "default", "key": "a", "effect": "NoSchedule"}
        return words.get(key[-1] if key[1:2] != ("tolerations",) else "", "")
    if z3.is_bool(leaf):
        return key[0] == "others"
    return 110 if key == ("node", "allocatable", "pods") else 0


def samples(
    question: Question, leaves: Leaves, start: Leaves, *, exact: bool = True
) -> Iterator[Leaves]:
    """Yield values of the constants that concern a question, under which it may hold.

    The first are those of ``start``; each differs in some from those before. Without ``exact``
    other constants may concern it, too, through what has no term.
    """
    own = question.own(leaves) if exact else leaves
    draws, random = Draws(question.stated), Random(11)  # noqa: S311
    values = {key: start.get(key, plainest(leaf, key)) for key, leaf in own.items()}
    seen = set[str]()
    for number in range(DRAWS):
        draws.draw_texts()
        changed = random.sample(list(own), min(len(own), random.choice((1, 2, 2, 3, 8))))
        other = {**values, **{key: draws.value(own[key], key, 0.3) for key in changed}}
        other = other if number else values
        if not exact:
            other = {**other, NOW: random.randrange(24)}
        if repr(other) not in seen and question.fits(own, other):
            values = other
            yield values
        seen.add(repr(other))
