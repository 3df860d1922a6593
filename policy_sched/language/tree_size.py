"""The size of a typed tree once its functions are inlined, and its children."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.language.typed import (
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
)


def children(tree: Core) -> tuple[Core, ...]:
    """Return the trees right below ``tree``, in the order of their evaluation."""
    match tree:
        case Field(operand=operand):
            return (operand,)
        case Index(operand=operand, index=index):
            return (operand, index)
        case Has(operand=operand, key=key):
            return (operand, key)
        case Call(args=args) | UserCall(args=args) | And(args=args) | Or(args=args):
            return args
        case Cond(test=test, then=then, otherwise=otherwise):
            return (test, then, otherwise)
        case ListLit(elements=elements):
            return elements
        case MapLit(keys=keys, values=values):
            return tuple(part for pair in zip(keys, values, strict=True) for part in pair)
        case Let(value=value, body=body):
            return (value, body)
        case Macro(operand=operand, test=test, body=body):
            return tuple(part for part in (operand, test, body) if part is not None)
    return ()


def size(tree: Core, functions: Mapping[str, UserFunction]) -> int:
    """Return the number of nodes of ``tree`` with its own functions inlined.

    Calls of functions that are not in ``functions`` count as one node.
    """
    known: dict[str, int] = {}

    def count(root: Core) -> int:
        total = 0
        stack = [root]
        while stack:
            part = stack.pop()
            total += 1
            if isinstance(part, UserCall) and part.name in functions:
                if part.name not in known:
                    known[part.name] = count(functions[part.name].body)
                total += known[part.name]
            stack.extend(children(part))
        return total

    return count(tree)
