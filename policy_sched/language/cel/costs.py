"""What the work of a selector costs, in cel-go's units: each operation, and an expression at most.

Theory of operation. The estimate evaluates sizes in place of values: a device has at most 32
attributes and capacities, whose names and texts have limits. A size that nothing limits is
infinite, and so is the cost of work over it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.language.stdlib import selector_environment
from policy_sched.language.syntax import (
    AndExpr,
    Binary,
    CallExpr,
    CelLiteral,
    CondExpr,
    Ident,
    IndexExpr,
    ListExpr,
    Literal,
    MapExpr,
    MethodExpr,
    Node,
    OrExpr,
    Select,
    Unary,
)

MAX_COST: Final = 1_000_000
"""Units that one evaluation may take, and that an estimate may reach."""
LISTED: Final = 10
"""Units of making a list."""
MAPPED: Final = 30
"""Units of making a map."""
#: Functions whose calls are not counted, or are done once with a literal.
_FREE: Final = frozenset({"dyn", "type", "duration", "timestamp"})
_MAKERS: Final = frozenset({"distinct", "slice", "sort"})
_SIZED: Final = frozenset({"string", "bytes", "list", "map"})
_TURNS: Final = {
    "all": 3, "exists": 5, "exists_one": 2, "existsOne": 2, "filter": LISTED + 3, "sortBy": 2,
    "transformMap": 4, "transformMapEntry": 4,
}  # fmt: skip
"""Units of one turn of a comprehension, its bodies apart."""


def loop_parts(node: MethodExpr) -> tuple[list[str], tuple[Node, ...]]:
    """Return the variables and the bodies of a comprehension that was checked."""
    count = selector_environment().macros[node.name].variables[len(node.args)]
    names = [arg.name for arg in node.args[:count] if isinstance(arg, Ident)]
    return names, node.args[count:]


def _tenth(count: float) -> float:
    return -(-count // 10) if math.isfinite(count) else count


def _quarter(count: float) -> float:
    return -(-count // 4) if math.isfinite(count) else count


def _times(a: float, b: float) -> float:
    return a * b if a and b else 0


def operator_cost(
    op: str, left: str, left_size: float, right: str, right_size: float, *, literal: bool
) -> float:
    """Return the cost of an operator; ``literal``: the right side is a list that is written out."""
    if op == "in":
        if right != "list":
            return 1
        return 0 if literal else right_size
    if left not in _SIZED or left != right:
        return 1
    if op == "+":
        return _tenth(left_size + right_size) if left in ("string", "bytes") else 1
    return _tenth(min(left_size, right_size))


def call_cost(name: str, first_kind: str, sizes: Sequence[float]) -> float:
    """Return the cost of a call with arguments of these sizes, its receiver the first."""
    first = sizes[0] if sizes else 1
    if name in _FREE:
        return 0
    if name in ("matches", "find", "findAll") and len(sizes) > 1:
        return _times(_tenth(1 + first), max(1, _quarter(sizes[1])))
    if name in ("startsWith", "endsWith"):
        return max(1, _tenth(sizes[-1]))
    if name == "contains":
        return _times(max(1, _tenth(first)), max(1, _tenth(sizes[-1])))
    if name.startswith("sets.") and len(sizes) > 1:
        return _times(first, sizes[1]) + 1
    if name in ("containsIP", "containsCIDR"):
        return 1 + _tenth(sizes[-1]) if sizes[-1] > 1 else 1
    if name in ("reverse", "flatten"):
        return LISTED + 2 * first
    if first_kind == "list" and name not in ("size", "first", "last"):
        return first + (LISTED if name in _MAKERS else 0)
    if first_kind == "string" and name not in ("size", "charAt"):
        return max(1, _tenth(first))
    return 1


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a value may be: its kind, its length, and what is in it."""

    kind: str = ""
    size: float = 1
    key: Shape | None = None
    element: Shape | None = None
    fields: Mapping[str, Shape] | None = None


_SCALAR: Final = Shape()
_UNKNOWN: Final = Shape("string", math.inf)
_NAME: Final = Shape("string", 32)
_DOMAIN: Final = Shape("string", 63)
_ATTRIBUTE: Final = Shape("string", 64)


def _both(a: Shape, b: Shape) -> Shape:
    """Return a shape that holds values of both."""
    key = _both(a.key, b.key) if a.key and b.key else a.key or b.key
    element = _both(a.element, b.element) if a.element and b.element else a.element or b.element
    return Shape(a.kind or b.kind, max(a.size, b.size), key, element, a.fields or b.fields)


def _names(value: Shape) -> Shape:
    return Shape("map", 32, _DOMAIN, Shape("map", 32, _NAME, value))


_DEVICE: Final = Shape(
    fields={
        "driver": _DOMAIN,
        "allowMultipleAllocations": _SCALAR,
        "attributes": _names(_ATTRIBUTE),
        "capacity": _names(_SCALAR),
    }
)
Scope = Mapping[str, Shape]


def estimated_cost(tree: Node) -> float:
    """Return what an expression that was checked costs at most."""
    return _Estimate().of(tree, {"device": _DEVICE})[0]


class _Estimate:
    """Estimates of the parts of one expression: cost and shape."""

    def of(self, node: Node, scope: Scope) -> tuple[float, Shape]:  # noqa: PLR0911 - each form
        """Return the cost of a part at most, and the shape of its value."""
        match node:
            case Literal():
                text = isinstance(node.value, str)
                return 0, Shape("string", len(str(node.value))) if text else _SCALAR
            case CelLiteral():
                data = isinstance(node.value, bytes)
                return 0, Shape("bytes", len(node.value)) if data else _SCALAR  # type: ignore[arg-type]
            case Ident():
                return 1, scope.get(node.name, _SCALAR)
            case Select():
                cost, shape = self.of(node.operand, scope)
                return cost + 1, (shape.fields or {}).get(node.name) or shape.element or _UNKNOWN
            case IndexExpr():
                cost, shape = self.of(node.operand, scope)
                return cost + 1 + self.of(node.index, scope)[0], shape.element or _UNKNOWN
            case ListExpr() | MapExpr():
                return self._made(node, scope)
            case AndExpr() | OrExpr():
                return sum(self.of(one, scope)[0] for one in node.args), _SCALAR
            case CondExpr():
                test, _ = self.of(node.test, scope)
                then, otherwise = self.of(node.then, scope), self.of(node.otherwise, scope)
                return test + max(then[0], otherwise[0]), _both(then[1], otherwise[1])
            case Unary():
                cost, shape = self.of(node.operand, scope)
                return cost + 1, shape
            case Binary():
                return self._binary(node, scope)
            case MethodExpr():
                return self._method(node, scope)
            case CallExpr():
                costs, shapes = self._each(node.args, scope)
                return costs + call_cost(node.name, *_receiver(shapes)), _result(node.name, shapes)
        return 0, _SCALAR

    def _each(self, nodes: Sequence[Node], scope: Scope) -> tuple[float, list[Shape]]:
        found = [self.of(node, scope) for node in nodes]
        return sum(cost for cost, _ in found), [shape for _, shape in found]

    def _made(self, node: ListExpr | MapExpr, scope: Scope) -> tuple[float, Shape]:
        if isinstance(node, ListExpr):
            cost, shapes = self._each(node.elements, scope)
            return cost + LISTED, Shape("list", len(shapes), element=_all(shapes))
        cost, values = self._each(node.values, scope)
        more, keys = self._each(node.keys, scope)
        return cost + more + MAPPED, Shape("map", len(keys), _all(keys), _all(values))

    def _binary(self, node: Binary, scope: Scope) -> tuple[float, Shape]:
        cost, (left, right) = self._each((node.left, node.right), scope)
        literal = isinstance(node.right, ListExpr)
        kinds = (left.kind, left.size, right.kind, right.size)
        cost += operator_cost(node.op, *kinds, literal=literal)
        if node.op == "+" and left.kind in _SIZED:
            added = _both(left, right)
            size = left.size + right.size
            return cost, Shape(left.kind, size, added.key, added.element)
        return cost, _SCALAR

    def _method(self, node: MethodExpr, scope: Scope) -> tuple[float, Shape]:
        name = node.args[0].name if node.args and isinstance(node.args[0], Ident) else ""
        dotted = f"{node.target.name}.{node.name}" if isinstance(node.target, Ident) else ""
        if dotted == "cel.bind":
            cost, value = self.of(node.args[1], scope)
            more, body = self.of(node.args[2], {**scope, name: value})
            return cost + more, body
        if dotted and isinstance(node.target, Ident) and node.target.name not in scope:
            costs, shapes = self._each(node.args, scope)
            return costs + call_cost(dotted, *_receiver(shapes)), _result(dotted, shapes)
        cost, target = self.of(node.target, scope)
        if node.name in ("optMap", "optFlatMap") and name:
            more, body = self.of(node.args[1], {**scope, name: target})
            return cost + more + 7, body
        if name and node.name in selector_environment().macros:
            turn, shape = self._turn(node, target, scope)
            return cost + _times(target.size, turn) + 2, shape
        costs, shapes = self._each(node.args, scope)
        shapes = [target, *shapes]
        cost += costs + call_cost(node.name, *_receiver(shapes))
        return cost, _result(node.name, shapes)

    def _turn(self, node: MethodExpr, target: Shape, scope: Scope) -> tuple[float, Shape]:
        """Return the cost of one turn of a comprehension, and the shape of its result."""
        names, bodies = loop_parts(node)
        key, element = target.key or _SCALAR, target.element or _UNKNOWN
        first = key if len(names) == 2 or target.kind == "map" else element
        inner = {**scope, **dict(zip(names, (first, element), strict=False))}
        found = [self.of(body, inner) for body in bodies]
        cost = sum(part for part, _ in found) + _TURNS.get(node.name, LISTED + 2)
        last = found[-1][1] if found else _SCALAR
        match node.name:
            case "filter":
                return cost, Shape("list", target.size, element=first)
            case "map" | "transformList":
                return cost, Shape("list", target.size, element=last)
            case "transformMap":
                return cost, Shape("map", target.size, key, last)
            case "transformMapEntry":
                return cost, Shape("map", _times(target.size, last.size), last.key, last.element)
            case "sortBy":
                return cost, target
        return cost, _SCALAR


def _all(shapes: Sequence[Shape]) -> Shape | None:
    found: Shape | None = None
    for one in shapes:
        found = one if found is None else _both(found, one)
    return found


def _receiver(shapes: Sequence[Shape]) -> tuple[str, list[float]]:
    return shapes[0].kind if shapes else "", [one.size for one in shapes]


_LISTS: Final = frozenset(
    {"distinct", "reverse", "slice", "sort", "or", "orValue", "value", "dyn", "optional.of",
     "optional.ofNonZeroValue", "trim", "lowerAscii", "upperAscii", "substring", "charAt", "find"}
)  # fmt: skip
"""What gives no more than it gets."""
_TEXTS: Final = frozenset(
    {"format", "join", "replace", "strings.quote", "string", "bytes", "getScheme", "getHost",
     "getHostname", "getPort", "getEscapedPath"}
)  # fmt: skip


def _result(name: str, shapes: Sequence[Shape]) -> Shape:
    """Return how large the value of a call may be."""
    first = shapes[0] if shapes else _SCALAR
    if name in ("or", "orValue") and len(shapes) == 2:
        return _both(*shapes)
    if name in _LISTS:
        return first
    if name in ("min", "max", "first", "last", "sum"):
        return first.element or _UNKNOWN
    if name in ("split", "findAll"):
        return Shape("list", first.size, element=Shape("string", first.size))
    if name in ("string", "bytes", "strings.quote"):
        return Shape("bytes" if name == "bytes" else "string", max(64, 4 * first.size + 2))
    if name == "join":
        between = shapes[1].size if len(shapes) > 1 else 0
        each = first.element.size if first.element else 0
        return Shape("string", _times(first.size, each + between))
    if name == "flatten":
        inner = first.element or _SCALAR
        return Shape("list", _times(first.size, inner.size), element=inner.element)
    if name == "lists.range":
        return Shape("list", math.inf, element=_SCALAR)
    if name in ("getQuery", "validate"):
        return Shape("map", math.inf, _UNKNOWN, Shape("list", math.inf, element=_UNKNOWN))
    return _UNKNOWN if name in _TEXTS else _SCALAR
