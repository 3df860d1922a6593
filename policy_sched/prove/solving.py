"""Asks the solver whether a condition can hold, and makes what it finds small.

Only facts that share constants with the condition are given to the solver: what is left out is
about other constants, and can be met whatever these are. Each question goes to a fresh solver,
which has a budget of steps, so that answers do not depend on how fast the machine is. What is
found is made small by putting values in place of constants, which leaves less to ask each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import z3

from policy_sched.prove.terms import (
    Code,
    Fact,
    Term,
    conjoined,
    is_term,
    literal_text,
    names_in,
    parts_of,
    text_of,
)

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


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver says: ``values`` that meet the condition, if any; ``why`` it gave up."""

    values: Mapping[tuple[Any, ...], Any] | None = None
    why: str = ""

    @property
    def impossible(self) -> bool:
        """Whether no values meet the condition."""
        return self.values is None and not self.why


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
        whole = z3.And(*self.stated)
        reals = any(z3.is_real(part) for part in parts_of([whole]))
        steps = int(seconds * (_STEPS_OF_REALS if reals else _STEPS))
        result, model = _asked(whole, max(1, steps))
        if result == z3.unsat:
            return Answer()
        if model is None:
            return Answer(why=str(result))
        smaller = _Smaller(whole, model, nice, _WISHES if small else 0)
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

    def __init__(self, goal: Term, model: Any, nice: Sequence[str], wishes: int) -> None:
        self._goal, self._model, self._nice = goal, model, nice
        self._left = wishes
        self._values: dict[int, Any] = {}

    def values(self, leaves: Mapping[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
        """Return values in which as much as possible is absent, empty, 0, or small."""
        constants = {
            part.get_id(): part
            for leaf in leaves.values()
            for part in (leaf if isinstance(leaf, Code) else (leaf,))
            if is_term(part)
        }
        if self._left:
            self._settle(list(constants.values()))
        return {key: self._value(leaf) for key, leaf in leaves.items()}

    def _settle(self, constants: list[Term]) -> None:
        """Give each constant a value: the plainest to all that can have it together."""
        plainest = [(constant, next(self._wishes(constant))) for constant in constants]
        if not constants or self._take(plainest):
            return
        if len(constants) > 1:
            middle = len(constants) // 2
            self._settle(constants[:middle])
            self._settle(constants[middle:])
            return
        constant = constants[0]
        for value in list(self._wishes(constant))[1:]:
            if self._take([(constant, value)]):
                return
        if z3.is_int(constant):
            self._bisect(constant)
        self._take([(constant, self._model.eval(constant, model_completion=True))], known=True)

    def _wishes(self, constant: Term) -> Iterator[Term]:
        if z3.is_string(constant):
            yield from map(text_of, ["", *self._nice, "a", "b"])
        elif z3.is_bool(constant):
            yield from (z3.BoolVal(False), z3.BoolVal(True))
        else:
            yield from (z3.IntVal(number) for number in (0, *_ROUND))

    def _take(self, pairs: list[tuple[Term, Term]], *, known: bool = False) -> bool:
        """Put values in place of constants if that leaves something that can be met."""
        goal = z3.simplify(z3.substitute(self._goal, *pairs))
        fits = known or all(self._fits(constant, value) for constant, value in pairs)
        if z3.is_false(goal) or not (fits or self._possible(goal)):
            return False
        self._goal = goal
        self._values |= {constant.get_id(): value for constant, value in pairs}
        return True

    def _fits(self, constant: Term, value: Term) -> bool:
        return bool(self._model.eval(constant, model_completion=True).eq(value))

    def _possible(self, goal: Term) -> bool:
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
            if self._possible(z3.And(self._goal, number * sign <= middle, number * sign > 0)):
                most = abs(self._model.eval(number, model_completion=True).as_long())
            else:
                least = middle

    def _value(self, leaf: Any) -> Any:
        """Return the value of a constant of the model; None for a text that is missing."""
        if isinstance(leaf, Code):
            return self._value(leaf.text) if self._value(leaf.present) else None
        if not is_term(leaf):
            return leaf
        value = self._values.get(leaf.get_id())
        if value is None:
            value = self._model.eval(leaf, model_completion=True)
        if z3.is_string(leaf):
            return literal_text(value)
        return value.as_long() if z3.is_int(leaf) else bool(z3.is_true(value))
