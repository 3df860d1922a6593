"""The syntax tree: what was written, before any name or type is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from policy_sched.language.syntax.typed_ast import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything that was written, with the characters that it covers."""

    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(Node):
    """``true``, ``1``, ``1.5``, ``"text"``; the value's Python type is the literal's type."""

    value: bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class CelLiteral(Node):
    """``1u``, ``b"text"`` or ``null``, which CEL has and rules have not.

    ``kind``: uint, bytes or null_type.
    """

    kind: str
    value: int | bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad(Node):
    """Something that the parser understood, reported and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ident(Node):
    """``pod``"""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Node):
    """``operand.name``, ``operand.?name`` and ``operand.`na/me` ``."""

    operand: Node
    name: str
    name_span: Span = field(compare=False)
    optional: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexExpr(Node):
    """``operand[index]`` and ``operand[?index]``."""

    operand: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExpr(Node):
    """``name(args)``"""

    name: str
    args: tuple[Node, ...]
    name_span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodExpr(Node):
    """``target.name(args)``, also where ``target.name`` is a function's dotted name."""

    target: Node
    name: str
    args: tuple[Node, ...]
    name_span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExpr(Node):
    """``[a, ?b]``; ``optional[i]`` tells which were written with ``?``."""

    elements: tuple[Node, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapExpr(Node):
    """``{k: v, ?k: o}``"""

    keys: tuple[Node, ...]
    values: tuple[Node, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    """``!operand`` and ``-operand``."""

    op: str
    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    """``left op right`` for arithmetic, comparison and ``in``."""

    op: str
    left: Node
    right: Node
    op_span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AndExpr(Node):
    """``a && b && c``"""

    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrExpr(Node):
    """``a || b || c``"""

    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CondExpr(Node):
    """``test ? then : otherwise``"""

    test: Node
    then: Node
    otherwise: Node


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes right below ``node``, in source order."""
    match node:
        case Select(operand=operand) | Unary(operand=operand):
            return (operand,)
        case IndexExpr(operand=operand, index=index):
            return (operand, index)
        case MethodExpr(target=target, args=args):
            return (target, *args)
        case CallExpr(args=args) | AndExpr(args=args) | OrExpr(args=args):
            return args
        case ListExpr(elements=elements):
            return elements
        case MapExpr(keys=keys, values=values):
            return tuple(n for pair in zip(keys, values, strict=True) for n in pair)
        case Binary(left=left, right=right):
            return (left, right)
        case CondExpr(test=test, then=then, otherwise=otherwise):
            return (test, then, otherwise)
    return ()


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """Yield every node with its depth (from 1), without recursion, parents before children."""
    stack = [(node, 1)]
    while stack:
        current, depth = stack.pop()
        yield current, depth
        stack.extend((child, depth + 1) for child in reversed(children(current)))
