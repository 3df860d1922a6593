"""The two trees of an expression: what was written, and what it means.

The parser's tree (`Node`) has no types. The checker's tree (`Core`) has every name and overload
settled: user functions and `cel.bind` are calls and lets, a macro is one node with its lambda,
`has()` is a presence test, and each operator and function is a `Call` of one overload. Nothing in
it is wrong: problems have been reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter

import msgspec

from policy_sched.language.values import types


class Span(msgspec.Struct, frozen=True):
    """A half-open range of character offsets in one expression's text."""

    start: int
    end: int


class _Tree(msgspec.Struct, frozen=True, eq=False):
    """A node of either tree; equal nodes may stand at different places in the text."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        compared = _compared(type(self))
        return bool(compared(self) == compared(other))

    def __ne__(self, other: object) -> bool:  # Struct's own knows nothing of the above
        return not self == other

    def __hash__(self) -> int:
        return hash(_compared(type(self))(self))


@cache
def _compared(kind: type[_Tree]) -> Callable[[object], object]:
    """Return what reads the fields that count when nodes are compared: all but the places."""
    names = [name for name in kind.__struct_fields__ if not name.endswith("span")]
    return attrgetter(*names) if names else lambda _: ()


class Core(_Tree, frozen=True, kw_only=True):
    """Anything that has a type and a place in the text."""

    type: types.Type
    span: Span


class Const(Core, frozen=True, kw_only=True):
    """A literal: bool, int, float, str, or (durations, timestamps) int nanoseconds."""

    value: object


class Var(Core, frozen=True, kw_only=True):
    """A name: a variable of the environment, a macro variable, or a function's parameter.

    ``variables.x`` is ``Var("variables.x")``; macro variables are made unique by the checker
    (``x#3``), so that a name means one thing in one tree.
    """

    name: str


class Field(Core, frozen=True, kw_only=True):
    """A record's field, by the name that the author wrote (``hostPorts``)."""

    operand: Core
    name: str


class Index(Core, frozen=True, kw_only=True):
    """``operand[index]``: a map's or resources' value, a list's element. Strict: may error.

    ``optional`` is true for ``operand[?index]``, whose type is an optional. A ``.?field``
    and a map's ``m.key`` arrive here too, with a constant string index.
    """

    operand: Core
    index: Core
    optional: bool = False


class Has(Core, frozen=True, kw_only=True):
    """``has(operand.key)`` over a map or resources: is there such a key. Never errs by itself."""

    operand: Core
    key: Core


class Call(Core, frozen=True, kw_only=True):
    """An operator, function or method, resolved to the id of one overload."""

    overload: str
    args: tuple[Core, ...]


class And(Core, frozen=True, kw_only=True):
    """``a && b && c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


class Or(Core, frozen=True, kw_only=True):
    """``a || b || c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


class Cond(Core, frozen=True, kw_only=True):
    """``test ? then : otherwise``; an error in ``test`` is its own, a branch's only if taken."""

    test: Core
    then: Core
    otherwise: Core


class ListLit(Core, frozen=True, kw_only=True):
    """``[a, b, ?c]``; ``optional[i]`` is whether element i was written with ``?``."""

    elements: tuple[Core, ...]
    optional: tuple[bool, ...]


class MapLit(Core, frozen=True, kw_only=True):
    """``{k: v, ?k2: o}``, in source order."""

    keys: tuple[Core, ...]
    values: tuple[Core, ...]
    optional: tuple[bool, ...]


class Let(Core, frozen=True, kw_only=True):
    """``cel.bind(name, value, body)``: value is evaluated when body first reads it."""

    name: str
    value: Core
    body: Core


class Macro(Core, frozen=True, kw_only=True):
    """An iteration over a list or a map's keys.

    ``kind``: all, exists, existsOne, filter, map, transformList, transformMap, optMap,
    optFlatMap, fold. ``names``: one variable, or two (index or key, value). ``test`` is the
    predicate (all, exists, existsOne, filter and the filtering form of map and transform*),
    ``body`` the transform; the one that a kind has not is None. For optMap and optFlatMap,
    ``operand`` is an optional and ``body`` the transform. For fold the names are those of the
    element and of the accumulator, which is ``first`` at first and then ``body`` of each element.
    """

    kind: str
    operand: Core
    names: tuple[str, ...]
    test: Core | None = None
    body: Core | None = None
    first: Core | None = None


class UserCall(Core, frozen=True, kw_only=True):
    """A call of a policy's own function; the compiler inlines it."""

    name: str
    args: tuple[Core, ...]


class UserFunction(msgspec.Struct, frozen=True):
    """A function of a policy's ``functions`` section: parameters by unique name, and the body."""

    name: str
    params: tuple[str, ...]
    body: Core


class Node(_Tree, frozen=True, kw_only=True):
    """Anything that was written, with the characters that it covers."""

    span: Span


class Literal(Node, frozen=True, kw_only=True):
    """``true``, ``1``, ``1.5``, ``"text"``; the value's Python type is the literal's type."""

    value: bool | int | float | str


class CelLiteral(Node, frozen=True, kw_only=True):
    """``1u``, ``b"text"`` or ``null``, which CEL has and rules have not.

    ``kind``: uint, bytes or null_type.
    """

    kind: str
    value: int | bytes | None


class Bad(Node, frozen=True, kw_only=True):
    """A part that was parsed, reported and dropped."""


class Ident(Node, frozen=True, kw_only=True):
    """``pod``"""

    name: str


class Select(Node, frozen=True, kw_only=True):
    """``operand.name``, ``operand.?name`` and ``operand.`na/me` ``."""

    operand: Node
    name: str
    name_span: Span
    optional: bool = False
    quoted: bool = False


class IndexExpr(Node, frozen=True, kw_only=True):
    """``operand[index]`` and ``operand[?index]``."""

    operand: Node
    index: Node
    optional: bool = False


class CallExpr(Node, frozen=True, kw_only=True):
    """``name(args)``"""

    name: str
    args: tuple[Node, ...]
    name_span: Span


class MethodExpr(Node, frozen=True, kw_only=True):
    """``target.name(args)``, also where ``target.name`` is a function's dotted name."""

    target: Node
    name: str
    args: tuple[Node, ...]
    name_span: Span


class ListExpr(Node, frozen=True, kw_only=True):
    """``[a, ?b]``; ``optional[i]`` is whether element i was written with ``?``."""

    elements: tuple[Node, ...]
    optional: tuple[bool, ...]


class MapExpr(Node, frozen=True, kw_only=True):
    """``{k: v, ?k: o}``"""

    keys: tuple[Node, ...]
    values: tuple[Node, ...]
    optional: tuple[bool, ...]


class Unary(Node, frozen=True, kw_only=True):
    """``!operand`` and ``-operand``."""

    op: str
    operand: Node


class Binary(Node, frozen=True, kw_only=True):
    """``left op right`` for arithmetic, comparison and ``in``."""

    op: str
    left: Node
    right: Node
    op_span: Span


class AndExpr(Node, frozen=True, kw_only=True):
    """``a && b && c``"""

    args: tuple[Node, ...]


class OrExpr(Node, frozen=True, kw_only=True):
    """``a || b || c``"""

    args: tuple[Node, ...]


class CondExpr(Node, frozen=True, kw_only=True):
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
