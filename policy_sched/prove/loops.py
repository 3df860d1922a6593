"""Loops over the lists of the model, unrolled: the terms of what they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from policy_sched.language import ir
from policy_sched.prove.terms import (
    Listing,
    Term,
    Terms,
    checked,
    conjunction,
    counted,
    disjunction,
    failed,
    ite,
    negation,
)

Environment = Mapping[int, Any]
"""What loop variables stand for, by their serial number."""


class PrintsTerms(Protocol):
    """What a loop needs of the printer."""

    made: Terms

    def term(self, op: ir.Op, env: Environment | None = None) -> Any:
        """Return the value of an operation."""
        ...


class Unrolled:
    """A loop over the elements of a list, one after the other."""

    def __init__(
        self, printer: PrintsTerms, op: ir.Op, loop: ir.Loop, source: Listing, env: Environment
    ) -> None:
        self._printer, self._loop = printer, loop
        self._source, self._env = source, env
        rest = list(op.args[1:])
        self._stages = [rest.pop(0) for _ in range(loop.errors)]
        self._first = rest.pop() if loop.kind is ir.LoopKind.FOLD else None
        self._mask = rest.pop(0) if loop.masked else None
        self._value = rest[0]
        self._error = rest[1] if len(rest) > 1 else None
        self._stage_errors: list[Term] = [0] * loop.errors

    def _elements(self) -> Iterator[tuple[Term, Any, dict[int, Any]]]:
        """Yield when each element takes part, itself, and the variables with it."""
        position: Term = 0
        for there, item in self._source.items:
            if there is False:
                continue
            env = {**self._env, self._loop.param: item}
            if self._loop.index is not None and self._first is None:
                env[self._loop.index] = position
            for i, stage in enumerate(self._stages):
                error = ite(there, self._printer.term(stage, env), 0)
                so_far = self._stage_errors[i]
                self._stage_errors[i] = ite(failed(so_far), so_far, error)
            taken = there
            if self._mask is not None:
                taken = conjunction(there, self._printer.term(self._mask, env))
            yield taken, item, env
            position = position + ite(there, 1, 0)

    def result(self) -> Any:
        """Return (value, error), or None where the loop has no term."""
        match self._loop.kind:
            case ir.LoopKind.ALL | ir.LoopKind.EXISTS:
                found = self._quantifier(every=self._loop.kind is ir.LoopKind.ALL)
            case ir.LoopKind.COUNT:
                found = counted([taken for taken, _, _ in self._elements()]), 0
            case ir.LoopKind.SUM_INT:
                found = self._sum()
            case ir.LoopKind.SUM_DOUBLE:
                found = self._sum_of_doubles()
            case ir.LoopKind.LIST:
                items = [(t, self._printer.term(self._value, e)) for t, _, e in self._elements()]
                found = Listing(tuple(items)), 0
            case ir.LoopKind.FOLD if self._first is not None:
                found = self._fold(self._first)
            case _:
                return None
        value, error = found
        for stage in reversed(self._stage_errors):
            error = ite(failed(stage), stage, error)
        return value, error

    def _quantifier(self, *, every: bool) -> tuple[Any, Any]:
        decided, errors = [], []
        for taken, _, env in self._elements():
            value = self._printer.term(self._value, env)
            error = 0 if self._error is None else self._printer.term(self._error, env)
            decides = negation(value) if every else value
            decided.append(conjunction(taken, negation(failed(error)), decides))
            errors.append(ite(taken, error, 0))
        settled, first = disjunction(*decided), 0
        for error in reversed(errors):
            first = ite(failed(error), error, first)
        return (negation(settled) if every else settled), ite(settled, 0, first)

    def _sum(self) -> tuple[Any, Any]:
        so_far: Any = 0
        error: Any = 0
        for taken, _, env in self._elements():
            so_far = so_far + ite(taken, self._printer.term(self._value, env), 0)
            if self._loop.site:
                so_far, own = checked(so_far, self._loop.site)
                error = ite(failed(error), error, own)
        return so_far, error

    def _sum_of_doubles(self) -> tuple[Any, Any]:
        made = self._printer.made
        so_far = made.double(0.0)
        for taken, _, env in self._elements():
            added = made.add(so_far, self._printer.term(self._value, env))
            so_far = ite(taken, added, so_far)
        return so_far, 0

    def _fold(self, first: ir.Op) -> tuple[Any, Any]:
        so_far, error = self._printer.term(first, self._env), 0
        for there, item in self._source.items:
            env = {**self._env, self._loop.param: item, self._loop.index or 0: so_far}
            if self._error is not None:
                own = ite(there, self._printer.term(self._error, env), 0)
                error = ite(failed(error), error, own)
            so_far = ite(there, self._printer.term(self._value, env), so_far)
        return so_far, error
