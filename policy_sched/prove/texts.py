"""Texts that a question only compares, as ints: the solver knows those far better than texts.

Theory of operation. Texts that a question compares with each other or chooses between are of one
component. Where no other operation reads a text of a component, which text it is matters only as
far as it is one of those that are written down, or another. So each text that is written down has
a number, and any other number is a text that is not: there are always enough words of a-z that
meet every form of `world`, which is what makes this exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Final

import z3

from policy_sched.prove.terms import (
    Part,
    Term,
    is_written,
    literal_text,
    part_of,
    parts_of,
    text_of,
)
from policy_sched.prove.world import FORMS

_COMPARES: Final = (z3.Z3_OP_EQ, z3.Z3_OP_DISTINCT, z3.Z3_OP_ITE)


class Texts:
    """Numbers of the texts of a question."""

    def __init__(self, stated: Sequence[Term], nice: Sequence[str]) -> None:
        """``stated``: all that is asked; ``nice``: texts that have the first numbers."""
        self._parents: dict[int, int] = {}
        self._rich = set[int]()
        self._misfits: dict[int, list[str] | None] = {}
        self._made: dict[int, Term] = {}
        parts = list(parts_of(stated))
        written = [literal_text(part.term) for part in parts if is_written(part)]
        self._numbers = {text: i for i, text in enumerate(dict.fromkeys(["", *nice, *written]))}
        for part in parts:
            self._look_at(part)
        self._rich = {self._root(number) for number in self._rich}

    def _look_at(self, part: Part) -> None:
        texts = [child for child in (*part.children, part.term) if z3.is_string(child)]
        texts = [text for text in texts if not z3.is_string_value(text)]
        if not part.children or not texts:
            return
        if part.kind in _COMPARES:
            for other in texts[1:]:
                self._parents[self._root(texts[0].get_id())] = self._root(other.get_id())
        elif part.kind != z3.Z3_OP_SEQ_IN_RE or self._outside(part.children[1]) is None:
            self._rich |= {text.get_id() for text in texts}

    def _root(self, number: int) -> int:
        while (parent := self._parents.get(number, number)) != number:
            number = parent
        return number

    def _outside(self, form: Term) -> list[str] | None:
        """Return the texts written down that do not have a form; None if it is not one of ours."""
        if not any(form.eq(known) for known in FORMS):
            return None
        if form.get_id() not in self._misfits:
            told = {t: z3.simplify(z3.InRe(text_of(t), form)) for t in self._numbers}
            known = all(z3.is_true(fit) or z3.is_false(fit) for fit in told.values())
            misfits = [text for text, fit in told.items() if z3.is_false(fit)]
            self._misfits[form.get_id()] = misfits if known else None
        return self._misfits[form.get_id()]

    def plain(self, term: Term) -> bool:
        """Return whether a text that is not written down is one of those that are numbers."""
        return self._root(term.get_id()) not in self._rich

    def coded(self, whole: Term) -> Term:
        """Return a part of the question, or a constant of it, with numbers for texts."""
        todo = [part_of(whole)]
        while todo:
            part = todo[-1]
            waiting = [c for c in map(part_of, part.children) if c.number not in self._made]
            if part.number in self._made or not waiting:
                todo.pop()
                if part.number not in self._made:
                    self._made[part.number] = self._coded(part)
            else:
                todo += waiting
        return self._made[whole.get_id()]

    def _coded(self, part: Part) -> Term:
        term, children, kind = part.term, part.children, part.kind
        if not children:
            named = kind == z3.Z3_OP_UNINTERPRETED and z3.is_string(term) and self.plain(term)
            return z3.Int(term.decl().name()) if named else term
        made = [self._made[child.get_id()] for child in children]
        if kind == z3.Z3_OP_SEQ_IN_RE and not z3.is_string(made[0]):
            outside = self._outside(children[1]) or []
            return z3.And(*[made[0] != self._numbers[text] for text in outside])
        if all(new is old for new, old in zip(made, children, strict=True)) and not (
            kind == z3.Z3_OP_ITE and z3.is_string(term) and self.plain(term)
        ):
            return term
        pairs = zip(children, made, strict=True)
        coded = kind == z3.Z3_OP_ITE and z3.is_string(term) and self.plain(term)
        if coded or any(z3.is_string(old) and z3.is_int(new) for old, new in pairs):
            made = [self._number(new) for new in made]
        if kind == z3.Z3_OP_ITE:
            return z3.If(*made)
        if kind == z3.Z3_OP_EQ:
            return made[0] == made[1]
        return z3.Distinct(*made) if kind == z3.Z3_OP_DISTINCT else term.decl()(*made)

    def _number(self, term: Term) -> Term:
        if z3.is_string_value(term):
            return z3.IntVal(self._numbers[literal_text(term)])
        return term

    def wishes(self, leaf: Term, wanted: Sequence[str]) -> Iterator[Term]:
        """Yield values for a constant that is a text: some that are written down, and others."""
        if z3.is_string(leaf):
            yield from (text_of(text) for text in (*wanted, "a", "b"))
            return
        known = [self._numbers[text] for text in wanted if text in self._numbers]
        others = range(len(self._numbers), len(self._numbers) + 3)
        yield from (z3.IntVal(number) for number in (*known, *others))

    def text(self, number: int) -> str:
        """Return the text of a number; other numbers have other texts."""
        written = list(self._numbers)
        if 0 <= number < len(written):
            return written[number]
        letters = [letter for letter in ascii_lowercase if letter not in self._numbers]
        if 0 <= number - len(written) < len(letters):
            return letters[number - len(written)]
        longest = max(map(len, written))
        return f"{'x' * longest}{'y' if number > 0 else 'z'}{abs(number)}"
