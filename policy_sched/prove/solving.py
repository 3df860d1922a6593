"""Asks the solver whether a condition can hold, and makes what it finds small.

Only facts that share constants with the condition are given to the solver: what is left out is
about other constants, and can be met whatever these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import z3

from policy_sched.prove.terms import Code, Term, conjoined, is_term

#: Milliseconds for each step of making a model smaller, and steps in all.
_STEP: Final = 300
_STEPS: Final = 120
#: Numbers that are tried for an amount that is not 0, in this order.
_ROUND: Final = (1, 2, 10, 100, 1000)
#: The seed of the solver: the same question has the same answer.
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver says: ``found`` values, None where there are none; ``why`` it gave up."""

    found: Mapping[tuple[Any, ...], Any] | None = None
    why: str = ""
    number: Any = None
    """The value of the number that was asked for."""

    @property
    def impossible(self) -> bool:
        """Whether no values meet the condition."""
        return self.found is None and not self.why


class Question:
    """A condition over the constants of a model, with the facts that concern it."""

    def __init__(
        self, facts: Sequence[tuple[Term, set[str]]], condition: Term, timeout: float
    ) -> None:
        """``facts``: each with its `names_in`; ``timeout``: seconds that the solver may take."""
        self._condition = conjoined([condition])
        self._milliseconds = max(1, int(timeout * 1000))
        self.constants = names_in(self._condition)
        self._facts = self._concerning(facts)

    def _concerning(self, facts: Sequence[tuple[Term, set[str]]]) -> list[Term]:
        waiting = list(facts)
        taken: list[Term] = []
        while near := [pair for pair in waiting if pair[1] & self.constants]:
            waiting = [pair for pair in waiting if not pair[1] & self.constants]
            for fact, names in near:
                taken.append(fact)
                self.constants |= names
        return taken

    def _solver(self, milliseconds: int) -> Any:
        solver = z3.Solver()
        solver.set("timeout", milliseconds)
        solver.set("random_seed", _SEED)
        solver.add(*self._facts, self._condition)
        return solver

    def answer(
        self, leaves: Mapping[tuple[Any, ...], Any], nice: Sequence[str] = (), number: Any = None
    ) -> Answer:
        """Return values of ``leaves`` that meet the condition, small ones, and that of a number.

        ``nice``: texts that are tried before others.
        """
        solver = self._solver(self._milliseconds)
        result = solver.check()
        if result == z3.unsat:
            return Answer()
        if result != z3.sat:
            return Answer(why=_reason(solver.reason_unknown()))
        own = {key: leaf for key, leaf in leaves.items() if self._concerns(leaf)}
        model = _Smaller(solver, nice).model(own)
        found = {key: value_of(model, leaf) for key, leaf in own.items()}
        return Answer(found, number=value_of(model, number))

    def _concerns(self, leaf: Any) -> bool:
        parts = leaf if isinstance(leaf, tuple) else (leaf,)
        return any(is_term(part) and str(part) in self.constants for part in parts)


def _reason(why: str) -> str:
    timed = "timeout" in why or "canceled" in why or "resource" in why
    return "the solver needs more time" if timed else f"the solver gave up: {why}"


class _Smaller:
    """Adds preferences to what a solver has found as long as it still finds something."""

    def __init__(self, solver: Any, nice: Sequence[str]) -> None:
        self._solver = solver
        self._nice = nice
        self._steps = _STEPS
        self._model = solver.model()
        solver.set("timeout", _STEP)

    def model(self, leaves: Mapping[tuple[Any, ...], Any]) -> Any:
        """Return a model in which as much as possible is absent, empty, 0, or small."""
        for leaf in leaves.values():
            if isinstance(leaf, Code):
                self._code(leaf)
            elif z3.is_bool(leaf):
                self._prefer(z3.Not(leaf))
            elif z3.is_int(leaf):
                self._int(leaf)
            elif z3.is_string(leaf):
                self._text(leaf)
        return self._model

    def _prefer(self, wish: Term) -> bool:
        if z3.is_true(self._model.eval(wish, model_completion=True)):
            self._solver.add(wish)
            return True
        if self._steps <= 0:
            return False
        self._steps -= 1
        self._solver.push()
        self._solver.add(wish)
        if self._solver.check() == z3.sat:
            self._model = self._solver.model()
            return True
        self._solver.pop()
        return False

    def _code(self, leaf: Code) -> None:
        if is_term(leaf.present) and self._prefer(z3.Not(leaf.present)):
            return
        if is_term(leaf.text):
            self._text(leaf.text)

    def _text(self, leaf: Term) -> None:
        for text in ("", *self._nice, "a"):
            if self._prefer(leaf == z3.StringVal(text)):
                return
        self._prefer(z3.Length(leaf) <= 3)

    def _int(self, leaf: Term) -> None:
        if self._prefer(leaf == 0):
            return
        for number in _ROUND:
            if self._prefer(leaf == number):
                return
        value = self._model.eval(leaf, model_completion=True).as_long()
        least, sign = 0, 1 if value > 0 else -1
        most = abs(value)
        while most - least > 1 and self._steps > 0:
            middle = (least + most) // 2
            if self._prefer(z3.And(leaf * sign <= middle, leaf * sign > 0)):
                most = abs(self._model.eval(leaf, model_completion=True).as_long())
            else:
                least = middle
        self._prefer(leaf == sign * most)


def names_in(expression: Term) -> set[str]:
    """Return the names of the constants and functions of an expression that have no meaning."""
    todo, seen, names = [expression], set[int](), set[str]()
    while todo:
        term = todo.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_app(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            names.add(term.decl().name())
        todo.extend(term.children())
    return names


def value_of(model: Any, leaf: Any) -> Any:
    """Return the value of a constant in a model; None for a text that is missing."""
    if isinstance(leaf, Code):
        return value_of(model, leaf.text) if value_of(model, leaf.present) else None
    if not is_term(leaf):
        return leaf
    value = model.eval(leaf, model_completion=True)
    if z3.is_string_value(value):
        return unescaped(value.as_string())
    if z3.is_int_value(value):
        return value.as_long()
    if z3.is_rational_value(value):
        return value.as_fraction()
    return bool(z3.is_true(value))


def unescaped(text: str) -> str:
    """Return the text that z3 writes with escapes."""
    parts, rest = [], text
    while rest:
        before, mark, after = rest.partition("\\u{")
        parts.append(before)
        if not mark:
            break
        digits, _, rest = after.partition("}")
        parts.append(chr(int(digits, 16)))
    return "".join(parts)


def texts_in(terms: Iterable[Term]) -> list[str]:
    """Return the texts that expressions name, shortest first."""
    texts = set[str]()
    for term in terms:
        todo, seen = [term], set[int]()
        while todo:
            part = todo.pop()
            if not is_term(part) or part.get_id() in seen:
                continue
            seen.add(part.get_id())
            if z3.is_string_value(part):
                texts.add(part.as_string())
            todo.extend(part.children())
    return sorted(texts, key=lambda text: (len(text), text))
