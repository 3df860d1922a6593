"""Asks the solver whether a condition can hold, and makes what it finds small.

Only facts that share constants with the condition are given to the solver: what is left out is
about other constants, and can be met whatever these are. Each question goes to a fresh solver,
which has a budget of steps, so that answers do not depend on how fast the machine is. What is
found is made small by putting values in place of constants, which leaves less to ask each time.

Texts that a question only compares are ints: the solver knows those far better. Texts that are
compared with each other or chosen between are of one component. Where no other operation reads a
text of a component, which text it is matters only as far as it is one of those that are written
down, or another. So each text that is written down has a number, and any other number is a text
that is not: there are always enough words of a-z that meet every form of `world`, which is what
makes this exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Final

import z3

from policy_sched.prove.terms import (
    Code,
    Fact,
    Part,
    Term,
    conjoined,
    is_term,
    is_written,
    literal_text,
    names_in,
    part_of,
    parts_of,
    text_of,
)
from policy_sched.prove.world import FORMS

#: Steps of the solver that take about a second: those about reals take longer.
_STEPS, _STEPS_OF_REALS = 3_000_000, 300_000
NEEDS_TIME: Final = "the solver needs more time"
"""Why it gave up when its budget was spent."""
#: Steps for one question while a model is made smaller, and how many questions there are.
_WISH: Final = 300_000
_WISHES: Final = 150
#: Numbers that are tried for an amount that is not 0, in this order.
_ROUND: Final = (1, 2, 10, 100, 1000)
#: The seed of the solver: the same question has the same answer.
_SEED: Final = 7
_COMPARES: Final = (z3.Z3_OP_EQ, z3.Z3_OP_DISTINCT, z3.Z3_OP_ITE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver says: ``found`` values, None where there are none; ``why`` it gave up."""

    found: Mapping[tuple[Any, ...], Any] | None = None
    why: str = ""

    @property
    def impossible(self) -> bool:
        """Whether no values meet the condition."""
        return self.found is None and not self.why


class Question:
    """A condition over the constants of a model, with the facts that concern it."""

    def __init__(self, facts: Sequence[Fact], condition: Term, number: Any = None) -> None:
        """``number``: what is read of the model beside it."""
        self.constants = names_in(conjoined([condition]), number)
        self.stated = [*self._concerning(facts), conjoined([condition])]
        """All that is asked."""

    def _concerning(self, facts: Sequence[Fact]) -> list[Term]:
        waiting, taken = list(facts), list[Term]()
        while near := [fact for fact in waiting if fact.concerns(self.constants)]:
            waiting = [fact for fact in waiting if not fact.concerns(self.constants)]
            taken += [fact.term for fact in near]
            self.constants.update(*(fact.names for fact in near))
        return taken

    def answer(
        self,
        leaves: Mapping[tuple[Any, ...], Any],
        nice: Sequence[str],
        seconds: float,
        *,
        small: bool = True,
    ) -> Answer:
        """Return values of ``leaves`` that meet the condition; ``small``: plain and small ones.

        ``nice``: texts that are tried before others; ``seconds``: about how long it may take.
        """
        texts = Texts(self.stated, nice)
        whole = z3.And(*[texts.coded(part) for part in self.stated])
        reals = any(z3.is_real(part.term) for part in parts_of([whole]))
        steps = int(seconds * (_STEPS_OF_REALS if reals else _STEPS))
        result, model = _asked(whole, max(1, steps))
        if result == z3.unsat:
            return Answer()
        if model is None:
            return Answer(why=str(result))
        smaller = _Smaller(whole, model, texts, nice, _WISHES if small else 0)
        return Answer(smaller.values(self.own(leaves)))

    def own(self, leaves: Mapping[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
        """Return the leaves that concern the condition."""
        return {key: leaf for key, leaf in leaves.items() if self._concerns(leaf)}

    def _concerns(self, leaf: Any) -> bool:
        parts = leaf if isinstance(leaf, tuple) else (leaf,)
        return any(is_term(part) and part.decl().name() in self.constants for part in parts)


def _asked(condition: Term, steps: int) -> tuple[Any, Any]:
    """Return what a fresh solver says, or why it gave up, and its model.

    It has a context of its own: what it finds depends on the numbers of terms, and those of a
    context that others have used depend on what was asked before.
    """
    solver = z3.Solver(ctx=z3.Context())
    solver.set("rlimit", steps)
    solver.set("random_seed", _SEED)
    solver.add(condition.translate(solver.ctx))
    result = solver.check()
    if result == z3.unknown:
        why = solver.reason_unknown()
        limited = any(word in why for word in ("timeout", "canceled", "resource"))
        return NEEDS_TIME if limited else f"the solver gave up: {why}", None
    return result, solver.model().translate(condition.ctx) if result == z3.sat else None


class _Smaller:
    """Puts values in place of constants as long as the solver still finds something."""

    def __init__(
        self, goal: Term, model: Any, texts: Texts, nice: Sequence[str], wishes: int
    ) -> None:
        self._goal, self._model = goal, model
        self._texts, self._nice = texts, nice
        self._left = wishes
        self._values: dict[int, Any] = {}

    def values(self, leaves: Mapping[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
        """Return values in which as much as possible is absent, empty, 0, or small."""
        constants = [
            (self._texts.coded(part), z3.is_string(part))
            for leaf in leaves.values()
            for part in (leaf if isinstance(leaf, Code) else (leaf,))
            if is_term(part)
        ]
        if self._left:
            self._settle(list({pair[0].get_id(): pair for pair in constants}.values()))
        return {key: self._value(leaf) for key, leaf in leaves.items()}

    def _settle(self, constants: list[tuple[Term, bool]]) -> None:
        """Give each constant a value: the plainest to all that can have it together."""
        plainest = [(constant, next(self._wishes(constant, text))) for constant, text in constants]
        if not constants or self._take(plainest):
            return
        if len(constants) > 1:
            middle = len(constants) // 2
            self._settle(constants[:middle])
            self._settle(constants[middle:])
            return
        constant, text = constants[0]
        for value in list(self._wishes(constant, text))[1:]:
            if self._take([(constant, value)]):
                return
        if z3.is_int(constant) and not text:
            self._bisect(constant)
        self._take([(constant, self._model.eval(constant, model_completion=True))], known=True)

    def _wishes(self, constant: Term, text: bool) -> Iterator[Term]:
        if text:
            yield from self._texts.wishes(constant, ["", *self._nice])
        elif z3.is_bool(constant):
            yield from (z3.BoolVal(False), z3.BoolVal(True))
        else:
            yield from (z3.IntVal(number) for number in (0, *_ROUND))

    def _take(self, pairs: list[tuple[Term, Term]], *, known: bool = False) -> bool:
        """Put values in place of constants if that leaves something that can be met."""
        goal = z3.simplify(z3.substitute(self._goal, *pairs))
        fits = known or all(self._fits(constant, value) for constant, value in pairs)
        if z3.is_false(goal) or not (fits or self._found(goal)):
            return False
        self._goal = goal
        self._values |= {constant.get_id(): value for constant, value in pairs}
        return True

    def _fits(self, constant: Term, value: Term) -> bool:
        return bool(self._model.eval(constant, model_completion=True).eq(value))

    def _found(self, goal: Term) -> bool:
        """Return whether a condition can be met, and take the model that meets it."""
        if z3.is_true(goal):
            return True
        if self._left <= 0:
            return False
        self._left -= 1
        _, model = _asked(goal, _WISH)
        self._model = self._model if model is None else model
        return model is not None

    def _bisect(self, number: Term) -> None:
        """Take a model in which a number that is not 0 is small."""
        value = self._model.eval(number, model_completion=True).as_long()
        least, most, sign = 0, abs(value), 1 if value > 0 else -1
        while most - least > 1 and self._left > 0:
            middle = (least + most) // 2
            if self._found(z3.And(self._goal, number * sign <= middle, number * sign > 0)):
                most = abs(self._model.eval(number, model_completion=True).as_long())
            else:
                least = middle

    def _value(self, leaf: Any) -> Any:
        """Return the value of a constant of the model; None for a text that is missing."""
        if isinstance(leaf, Code):
            return self._value(leaf.text) if self._value(leaf.present) else None
        if not is_term(leaf):
            return leaf
        constant = self._texts.coded(leaf)
        value = self._values.get(constant.get_id())
        if value is None:
            value = self._model.eval(constant, model_completion=True)
        if z3.is_string(leaf):
            return literal_text(value) if z3.is_string(value) else self._texts.text(value.as_long())
        return value.as_long() if z3.is_int(leaf) else bool(z3.is_true(value))


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
