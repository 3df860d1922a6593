"""Finds the moments at which a rule that compares the time may change.

Theory of operation. Where `now` is a term of a sum or difference on one side of a comparison, such
as ``now - podGroup.failedAt > duration("5m")``, the comparison changes at one moment: when `now` is
what the other terms come to. Such a rule needs no look at the clock from time to time: a timer
for the next of its moments is enough. Other uses of `now`, such as ``now.getHours()``, have no
moment of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from policy_sched.language.check.expressions import children
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

NOW: Final = "now"
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
_OPPOSITE: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
#: How many ns after its moment a comparison of `now` with it has another value.
_AFTER: Final = {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,), "eq": (0, 1), "ne": (0, 1)}
_TIMES: Final = frozenset({"timestamp", "duration"})


class Moment(msgspec.Struct, frozen=True):
    """The sum of timestamps and durations, each added (1) or subtracted (-1), and ``after`` ns."""

    terms: tuple[tuple[int, ast.Core], ...]
    after: int


class Moments(msgspec.Struct, frozen=True):
    """The moments of a rule; ``complete``: at no other time does the rule change by itself."""

    stated: tuple[Moment, ...] = ()
    complete: bool = True


def moments_of(
    tree: ast.Core,
    variables: Mapping[str, ast.Core],
    functions: Mapping[str, ast.UserFunction],
) -> Moments:
    """Return the moments of a rule; ``variables``: by the names under which trees read them."""
    search = _Search(variables, functions)
    moments = tuple(search.moments(tree, ()))
    return Moments(moments, search.complete)


class _Search:
    """Walks a rule; ``names`` are what trees around a part bind, with the values of the names."""

    def __init__(
        self, variables: Mapping[str, ast.Core], functions: Mapping[str, ast.UserFunction]
    ) -> None:
        self._variables = variables
        self._functions = functions
        self._reads: dict[int, bool] = {}
        self.complete = True

    def moments(self, tree: ast.Core, names: tuple[tuple[str, ast.Core], ...]) -> Iterator[Moment]:
        if not self._reads_now(tree):
            return
        match tree:
            case ast.Var(name=name) if name in self._variables:
                yield from self.moments(self._variables[name], ())
            case ast.Var() | ast.UserCall():
                self.complete = False
            case ast.Call(overload=overload, args=(left, right)) if _compares(overload, left):
                terms = [*self._terms(left, 1), *self._terms(right, -1)]
                yield from self._solved(overload.partition("_")[0], terms, names)
            case ast.Let(name=name, value=value, body=body) if not self._reads_now(value):
                yield from self.moments(body, (*names, (name, value)))
            case ast.Macro(kind="optMap", operand=operand, names=(name,), body=body) if (
                body is not None
                and isinstance(operand.type, types.OptionalType)
                and not self._reads_now(operand)
            ):
                inside = ast.Call(
                    type=operand.type.element,
                    span=operand.span,
                    overload="value_optional",
                    args=(operand,),
                )
                yield from self.moments(body, (*names, (name, inside)))
            case ast.Let() | ast.Macro():
                self.complete = False
            case _:
                for child in children(tree):
                    yield from self.moments(child, names)

    def _solved(
        self,
        comparison: str,
        terms: list[tuple[int, ast.Core]],
        names: tuple[tuple[str, ast.Core], ...],
    ) -> Iterator[Moment]:
        """Yield the moment of ``terms`` compared with zero, if `now` is one of them, once."""
        moving = [(sign, term) for sign, term in terms if self._reads_now(term)]
        if len(moving) != 1 or not _is_now(moving[0][1]):
            self.complete = False
            return
        sign = moving[0][0]
        fixed = tuple(
            (-of * sign, _within(term, names)) for of, term in terms if not self._reads_now(term)
        )
        for after in _AFTER[comparison if sign > 0 else _OPPOSITE[comparison]]:
            yield Moment(fixed, after)

    def _terms(self, tree: ast.Core, sign: int) -> Iterator[tuple[int, ast.Core]]:
        """Yield the terms of a sum with their signs."""
        match tree:
            case ast.Var(name=name) if name in self._variables and self._reads_now(tree):
                yield from self._terms(self._variables[name], sign)
            case ast.Call(overload=overload, args=(left, right)) if overload.startswith(
                ("add_", "sub_")
            ) and self._reads_now(tree):
                yield from self._terms(left, sign)
                yield from self._terms(right, sign if overload.startswith("add_") else -sign)
            case _:
                yield sign, tree

    def _reads_now(self, tree: ast.Core) -> bool:
        """Return whether a tree reads `now`, itself or by a variable or function."""
        kept = self._reads.get(id(tree))
        if kept is None:
            parts = list(children(tree))
            match tree:
                case ast.Var(name=name) if name in self._variables:
                    parts.append(self._variables[name])
                case ast.UserCall(name=name) if name in self._functions:
                    parts.append(self._functions[name].body)
            kept = _is_now(tree) or any(self._reads_now(part) for part in parts)
            self._reads[id(tree)] = kept
        return kept


def _is_now(tree: ast.Core) -> bool:
    return isinstance(tree, ast.Var) and tree.name == NOW


def _compares(overload: str, left: ast.Core) -> bool:
    return overload.partition("_")[0] in _COMPARISONS and left.type.name in _TIMES


def _within(tree: ast.Core, names: tuple[tuple[str, ast.Core], ...]) -> ast.Core:
    """Return a tree with the names bound that trees around it bind."""
    for name, value in reversed(names):
        tree = ast.Let(type=tree.type, span=tree.span, name=name, value=value, body=tree)
    return tree
