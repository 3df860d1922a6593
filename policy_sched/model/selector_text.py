"""Label selectors in their text form, as kubectl and the API take them: ``app=web,tier in (a,b)``.

The grammar is that of apimachinery's ``labels.Parse``; a text is read once, from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from policy_sched.model.selectors import NODE_OPERATORS, Requirement, Selector, requirement

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SPECIAL: Final = frozenset(("==", "!=", *"=!<>(),"))
_END: Final = ""
_OPERATORS: Final = {
    "in": "In",
    "notin": "NotIn",
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
#: Characters of a token that an error shows.
_SHOWN: Final = 40


def parse_selector(text: str, operators: tuple[str, ...] = NODE_OPERATORS) -> Selector:
    """Return the selector that a text means; an empty one selects everything.

    Raises ValueError if the text is no selector, or one of other operators.
    """
    return Selector(tuple(_Parser(text, operators).requirements()))


class _Parser:
    """Reads one text token by token."""

    def __init__(self, text: str, operators: tuple[str, ...]) -> None:
        self._tokens = chain(_tokens(text), repeat(_END))
        self._next = next(self._tokens)
        self._allowed = operators

    def _take(self) -> str:
        token, self._next = self._next, next(self._tokens)
        return token

    def _name(self, wanted: str) -> str:
        if self._next in _SPECIAL or self._next == _END:
            raise _unexpected(self._next, wanted)
        return self._take()

    def requirements(self) -> Iterator[Requirement]:
        """Yield the requirements between commas."""
        if self._next == _END:
            return
        while True:
            yield self._requirement()
            if self._next == _END:
                return
            if self._next != ",":
                raise _unexpected(self._next, "',' or the end")
            self._take()

    def _requirement(self) -> Requirement:
        if self._next == "!":
            self._take()
            return requirement(self._name("a key"), "DoesNotExist", (), self._allowed)
        key = self._name("a key")
        if self._next in (",", _END):
            return requirement(key, "Exists", (), self._allowed)
        word = self._take()
        if word not in _OPERATORS:
            raise _unexpected(word, "an operator")
        values = self._set() if word in ("in", "notin") else (self._value(),)
        return requirement(key, _OPERATORS[word], values, self._allowed)

    def _value(self) -> str:
        return "" if self._next in (",", _END) else self._name("a value")

    def _set(self) -> tuple[str, ...]:
        if self._next != "(":
            raise _unexpected(self._next, "'('")
        self._take()
        if self._next == ")":
            self._take()
            return ()
        values: dict[str, None] = {}
        while True:
            value = "" if self._next in (",", ")") else self._name("a value")
            values[value] = None
            if (after := self._take()) == ")":
                return tuple(values)
            if after != ",":
                raise _unexpected(after, "',' or ')'")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while found := _TOKEN.match(text, at):
        yield found[1]
        at = found.end()


def _unexpected(token: str, wanted: str) -> ValueError:
    if token == _END:
        return ValueError(f"found the end, expected {wanted}")
    shown = token if len(token) <= _SHOWN else f"{token[:_SHOWN]}..."
    return ValueError(f"found '{shown}', expected {wanted}")
