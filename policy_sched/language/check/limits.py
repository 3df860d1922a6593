"""The size of a typed tree once its functions are inlined, and its children."""

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
