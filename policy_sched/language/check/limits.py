"""Sizes of typed trees: nodes and depth with functions inlined, elements that literals write out.

A literal's elements are computed one by one, and a variable that is an element of two literals is
computed twice where it is compared or shown. So ``[variables.v, variables.v]``, a few times over,
has more elements than any memory holds, with types that are as deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from policy_sched.language.syntax import (
    And,
    Call,
    Cond,
    Core,
    Field,
    Has,
    Index,
    Let,
    ListLit,
    Macro,
    MapLit,
    Or,
    UserCall,
    UserFunction,
    Var,
)
from policy_sched.language.values import ListType, MapType, OptionalType, RecordType, Type


def _args(tree: Call | UserCall | And | Or) -> tuple[Core, ...]:
    return tree.args


def _entries(tree: MapLit) -> tuple[Core, ...]:
    return tuple(part for pair in zip(tree.keys, tree.values, strict=True) for part in pair)


def _of_macro(tree: Macro) -> tuple[Core, ...]:
    parts = (tree.operand, tree.test, tree.body)
    return tuple(part for part in parts if part is not None)


#: By class: a table is looked up in a third of the time of a ``match``, and every lint walks trees.
_CHILDREN: Final[dict[type[Core], Callable[[Any], tuple[Core, ...]]]] = {
    Field: lambda tree: (tree.operand,),
    Index: lambda tree: (tree.operand, tree.index),
    Has: lambda tree: (tree.operand, tree.key),
    **dict.fromkeys((Call, UserCall, And, Or), _args),
    Cond: lambda tree: (tree.test, tree.then, tree.otherwise),
    ListLit: lambda tree: tree.elements,
    MapLit: _entries,
    Let: lambda tree: (tree.value, tree.body),
    Macro: _of_macro,
}


def children(tree: Core) -> tuple[Core, ...]:
    """Return the trees right below ``tree``, in the order of their evaluation."""
    below = _CHILDREN.get(type(tree))
    return () if below is None else below(tree)


def size(tree: Core, functions: Mapping[str, UserFunction]) -> int:
    """Return the number of nodes of ``tree`` with its own functions inlined.

    Calls of functions that are not in ``functions`` count as one node.
    """
    return _size(tree, functions, {})


def _size(tree: Core, functions: Mapping[str, UserFunction], known: dict[str, int]) -> int:
    """Return the size; ``known``: sizes of functions, by name."""
    total = 0
    stack = [tree]
    while stack:
        part = stack.pop()
        total += 1
        if isinstance(part, UserCall) and part.name in functions:
            if part.name not in known:
                known[part.name] = _size(functions[part.name].body, functions, known)
            total += known[part.name]
        stack.extend(children(part))
    return total


def depth(tree: Core, functions: Mapping[str, UserFunction], variables: Mapping[str, int]) -> int:
    """Return how deep ``tree`` is with its own functions and variables written out.

    ``variables``: the depth of each, by ``variables.NAME``.
    """
    below = max((depth(child, functions, variables) for child in children(tree)), default=0)
    if isinstance(tree, Var):
        below = variables.get(tree.name, 0)
    elif isinstance(tree, UserCall) and tree.name in functions:
        below += depth(functions[tree.name].body, functions, variables)
    return below + 1


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
