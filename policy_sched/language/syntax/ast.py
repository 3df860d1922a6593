"""The two trees of an expression: what was written, and what it means.

The parser's tree (`Node`) has no types. The checker's tree (`Core`) has every name and overload
settled: user functions and `cel.bind` are calls and lets, a macro is one node with its lambda,
`has()` is a presence test, and each operator and function is a `Call` of one overload. Nothing in
it is wrong: problems have been reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from policy_sched.language.values import types


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets in one expression's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Anything that has a type and a place in the text."""

    type: types.Type
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Const(Core):
    """A literal: bool, int, float, str, or (durations, timestamps) int nanoseconds."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Var(Core):
    """A name: a variable of the environment, a macro variable, or a function's parameter.

    ``variables.x`` is ``Var("variables.x")``; macro variables are made unique by the checker
    (``x#3``), so that a name means one thing in one tree.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Core):
    """A record's field, by the name that the author wrote (``hostPorts``)."""

    operand: Core
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Core):
    """``operand[index]``: a map's or resources' value, a list's element. Strict: may error.

    ``optional`` is true for ``operand[?index]``, whose type is an optional. A ``.?field``
    and a map's ``m.key`` arrive here too, with a constant string index.
    """

    operand: Core
    index: Core
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Has(Core):
    """``has(operand.key)`` over a map or resources: is there such a key. Never errs by itself."""

    operand: Core
    key: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Core):
    """An operator, function or method, resolved to the id of one overload."""

    overload: str
    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class And(Core):
    """``a && b && c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(Core):
    """``a || b || c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cond(Core):
    """``test ? then : otherwise``; an error in ``test`` is its own, a branch's only if taken."""

    test: Core
    then: Core
    otherwise: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLit(Core):
    """``[a, b, ?c]``; ``optional[i]`` is whether element i was written with ``?``."""

    elements: tuple[Core, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLit(Core):
    """``{k: v, ?k2: o}``, in source order."""

    keys: tuple[Core, ...]
    values: tuple[Core, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Let(Core):
    """``cel.bind(name, value, body)``: value is evaluated when body first reads it."""

    name: str
    value: Core
    body: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro(Core):
    """An iteration over a list or a map's keys.

    ``kind``: all, exists, existsOne, filter, map, transformList, transformMap, optMap,
    optFlatMap. ``names``: one variable, or two (index or key, value). ``test`` is the
    predicate (all, exists, existsOne, filter and the filtering form of map and transform*),
    ``body`` the transform; the one that a kind has not is None. For optMap and optFlatMap,
    ``operand`` is an optional and ``body`` the transform.
    """

    kind: str
    operand: Core
    names: tuple[str, ...]
    test: Core | None = None
    body: Core | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCall(Core):
    """A call of a policy's own function; the compiler inlines it."""

    name: str
    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of a policy's ``functions`` section: parameters by unique name, and the body."""

    name: str
    params: tuple[str, ...]
    body: Core


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
    """A part that was parsed, reported and dropped."""


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
    """``[a, ?b]``; ``optional[i]`` is whether element i was written with ``?``."""

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
