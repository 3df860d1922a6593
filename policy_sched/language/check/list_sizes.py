"""How many elements the lists and maps have that an expression writes out.

A literal's elements are computed one by one, and a variable that is an element of two literals is
computed twice where it is compared or shown. So ``[variables.v, variables.v]``, a few times over,
has more elements than any memory holds, with types that are as deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.language.check.limits import children
from policy_sched.language.syntax import (
    Core,
    Let,
    ListLit,
    Macro,
    MapLit,
    UserCall,
    UserFunction,
    Var,
)
from policy_sched.language.values import ListType, MapType, OptionalType, RecordType, Type

_HOLDERS: Final = (ListType, MapType, OptionalType, RecordType)


class TooManyError(Exception):
    """A list or map has more elements than the limit."""


class ElementCount:
    """Counts elements; ``functions`` and ``variables`` (by ``variables.NAME``) are known."""

    def __init__(
        self, functions: Mapping[str, UserFunction], variables: Mapping[str, int], limit: int
    ) -> None:
        self._functions = functions
        self._variables = variables
        self._limit = limit

    def of(self, tree: Core) -> int:
        """Return how many elements the value of ``tree`` has. Raises TooManyError."""
        return self._of(tree, {})

    def _of(self, tree: Core, local: Mapping[str, int]) -> int:
        """Return the number of elements; ``local``: those of macro variables and parameters."""
        match tree:
            case Var():
                return local.get(tree.name, self._variables.get(tree.name, 0))
            case ListLit() | MapLit():
                found = sum(max(1, self._of(child, local)) for child in children(tree))
            case Let():
                found = self._of(tree.body, {**local, tree.name: self._of(tree.value, local)})
            case UserCall() if tree.name in self._functions:
                function = self._functions[tree.name]
                args = [self._of(arg, local) for arg in tree.args]
                found = self._of(function.body, dict(zip(function.params, args, strict=True)))
            case Macro():
                found = self._macro(tree, local)
            case _:
                found = sum(self._of(child, local) for child in children(tree))
        if found > self._limit:
            raise TooManyError
        return found if isinstance(tree.type, _HOLDERS) else 0

    def _macro(self, tree: Macro, local: Mapping[str, int]) -> int:
        """Return the elements of a loop's result, whose body is there for each of its operand's.

        What the body takes of an element is there once for each; what it writes out itself is there
        as often as there are elements.
        """
        operand = self._of(tree.operand, local)
        if tree.test is not None:
            self._of(tree.test, self._inner(tree, local, operand))
        if tree.body is None:
            return operand
        own = self._of(tree.body, self._inner(tree, local, 0))
        whole = self._of(tree.body, self._inner(tree, local, operand))
        return max(operand, operand * own + whole - own, own)

    def _inner(self, tree: Macro, local: Mapping[str, int], elements: int) -> Mapping[str, int]:
        """Return the counts of what is visible in a loop, all elements of its operand as one."""
        return {**local, **dict.fromkeys(tree.names, elements if _nested(tree.operand.type) else 0)}


def _nested(kind: Type) -> bool:
    """Tell whether the elements of a list or map hold others."""
    inner = kind.value if isinstance(kind, MapType) else getattr(kind, "element", None)
    return isinstance(inner, _HOLDERS)


def type_depth(kind: Type) -> int:
    """Return how deep a type is nested; a scalar's depth is 1."""
    match kind:
        case ListType() | OptionalType():
            return 1 + type_depth(kind.element)
        case MapType():
            return 1 + type_depth(kind.value)
        case RecordType():
            return 1 + max((type_depth(inner) for _, inner in kind.fields), default=0)
    return 1
