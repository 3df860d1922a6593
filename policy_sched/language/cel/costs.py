"""What the work of a selector costs, in cel-go's units: each operation, and an expression at most.

Theory of operation. The estimate evaluates sizes in place of values: a device has at most 32
attributes and capacities, whose names and texts have limits. A size that nothing limits is
infinite, and so is the cost of work over it: cel-go does not know how long the texts are that a
split, an optional or a sorted list gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from policy_sched.language.stdlib import selector_environment
from policy_sched.language.syntax import ast

MAX_COST: Final = 1_000_000
"""Units that one evaluation may take, and that an estimate may reach."""
_MOST: Final = 2**64 - 1
"""What cel-go counts to."""
LISTED: Final = 10
"""Units of making a list."""
MAPPED: Final = 30
"""Units of making a map."""
#: Conversions, which cel-go does once where the argument is a literal.
CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
#: Functions that cost what it takes to read every element of a list, or every tenth character.
TRAVERSALS: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
_SIZED: Final = frozenset({"string", "bytes", "list", "map"})
_TEXTUAL: Final = frozenset({"string", "bytes", "any"})
"""Kinds of values that may be texts; an attribute's may be anything."""
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_TURNS: Final = {
    "all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "filter": LISTED + 3, "sortBy": 13,
    "transformMap": 3, "transformMapEntry": 2,
}  # fmt: skip
"""Units of one turn of a comprehension, its bodies apart."""
_ONCE: Final = {
    "all": 1, "exists": 1, "exists_one": 2, "existsOne": 2, "sortBy": 2,
    "transformMap": MAPPED + 1, "transformMapEntry": MAPPED + 1,
}  # fmt: skip
"""Units of what a comprehension begins with, and of its result."""
_BIND: Final = LISTED
"""Units of naming a value, which is a comprehension over an empty list."""


def constant(node: ast.Node) -> bool:
    """Tell whether cel-go makes a value before the evaluation: of literals alone."""
    match node:
        case ast.Literal() | ast.CelLiteral():
            return True
        case ast.ListExpr():
            return all(map(constant, node.elements))
        case ast.MapExpr():
            return all(map(constant, (*node.keys, *node.values)))
        case ast.CallExpr():
            return node.name in CONVERSIONS and all(map(constant, node.args))
    return False


def starts_anew(operand: ast.Node) -> bool:
    """Tell whether fields of an operand are those of a value that a call or a literal makes."""
    return not isinstance(operand, ast.Ident | ast.Select | ast.IndexExpr | ast.CondExpr)


def loop_parts(node: ast.MethodExpr) -> tuple[list[str], tuple[ast.Node, ...]]:
    """Return the variables and the bodies of a comprehension that was checked."""
    count = selector_environment().macros[node.name].variables[len(node.args)]
    names = [arg.name for arg in node.args[:count] if isinstance(arg, ast.Ident)]
    return names, node.args[count:]


def _part(count: float, of: int) -> float:
    """Return one of so many parts of a count, rounded up."""
    return -(-count // of) if math.isfinite(count) else count


def _times(a: float, b: float) -> float:
    return _saturated(a * b) if a and b else 0


def _saturated(count: float) -> float:
    """Return a count, without a limit where cel-go's is the greatest number: chains square it."""
    return count if count <= _MOST else math.inf


def operator_cost(op: str, left: Shape, right: Shape, *, literal: bool) -> float:
    """Return the cost of an operator; ``literal``: the right side is a constant."""
    if op == "in":
        if right.kind != "list":
            return 1
        return 0 if literal else right.size
    if left.kind not in _SIZED or left.kind != right.kind:
        return 1
    if op == "+":
        return _part(left.size + right.size, 10) if left.kind in ("string", "bytes") else 1
    return _part(min(left.size, right.size), 10)


def call_cost(name: str, args: Sequence[Shape], result: float) -> float:
    """Return the cost of a call with such arguments, its receiver the first.

    ``result`` is the length of its value.
    """
    cost = _CALLS.get(name)
    if cost is None or (name == "ip" and args[0].kind == "cidr"):
        return 1
    return cost(args, result)


def _tenth(args: Sequence[Shape], _: float) -> float:
    return _part(args[0].size, 10)


def _traversed(args: Sequence[Shape], _: float) -> float:
    return args[0].size if args[0].kind == "list" else _part(args[0].size, 10)


def _squared(args: Sequence[Shape], _: float) -> float:
    inner = args[0].element
    text = inner is not None and inner.kind in _TEXTUAL
    count = _times(args[0].size, args[0].size) * (2.1 if text else 2)
    return 1 + LISTED + (math.floor(count) if math.isfinite(count) else count)


def _product(args: Sequence[Shape], of: int) -> float:
    return _times(_part(args[0].size, of), _part(args[1].size, of))


_CALLS: Final[dict[str, Callable[[Sequence[Shape], float], float]]] = {
    **dict.fromkeys(TRAVERSALS, _traversed),
    **dict.fromkeys(("distinct", "sort"), _squared),
    **dict.fromkeys(("reverse", "slice", "lists.range"), lambda _, made: 1 + LISTED + made),
    "flatten": lambda args, _: 1 + LISTED + args[0].size,
    **dict.fromkeys(("sets.contains", "sets.intersects"), lambda args, _: _product(args, 1) + 1),
    "sets.equivalent": lambda args, _: 2 * _product(args, 1) + 1,
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "substring", "trim", "url", "ip", "isIP", "cidr", "isCIDR",
         "quantity", "isQuantity", "bytes", "format", "strings.quote"),
        _tenth,
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda args, _: _part(args[0].size, 5)),
    "join": lambda _, made: _part(made, 5),
    **dict.fromkeys(("startsWith", "endsWith"), lambda args, _: _part(args[1].size, 10)),
    "contains": lambda args, _: _product(args, 10),
    **dict.fromkeys(
        ("matches", "find", "findAll"),
        lambda args, _: _times(_part(1 + args[0].size, 10), _part(args[1].size, 4)),
    ),
    "containsIP": lambda args, _: _part(2 * args[0].size, 10) + _text(args[1]),
    "containsCIDR": lambda args, _: _part(3 * args[0].size, 10) + 1 + _text(args[1]),
}  # fmt: skip
"""What a call costs where it is not one unit."""


def _text(value: Shape) -> float:
    return _part(value.size, 10) if value.kind in ("string", "any") else 0


class Shape(msgspec.Struct, frozen=True):
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
_ATTRIBUTE: Final = Shape("any", 64)


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


def estimated_cost(tree: ast.Node, scope: Scope | None = None) -> float:
    """Return what an expression that was checked costs at most; of a selector without ``scope``."""
    return _Estimate().of(tree, {"device": _DEVICE} if scope is None else scope)[0]


class _Estimate:
    """Estimates of the parts of one expression: cost and shape."""

    def of(self, node: ast.Node, scope: Scope) -> tuple[float, Shape]:  # noqa: PLR0911 - each form
        """Return the cost of a part at most, and the shape of its value."""
        match node:
            case ast.Literal():
                text = isinstance(node.value, str)
                return 0, Shape("string", len(str(node.value))) if text else _SCALAR
            case ast.CelLiteral():
                data = isinstance(node.value, bytes)
                return 0, Shape("bytes", len(node.value)) if data else _SCALAR  # type: ignore[arg-type]
            case ast.Ident():
                return 1, scope.get(node.name, _SCALAR)
            case ast.Select():
                cost, shape = self.of(node.operand, scope)
                cost += 1 + starts_anew(node.operand)
                return cost, (shape.fields or {}).get(node.name) or shape.element or _UNKNOWN
            case ast.IndexExpr():
                cost, shape = self.of(node.operand, scope)
                cost += 1 + starts_anew(node.operand) + self.of(node.index, scope)[0]
                return cost, _UNKNOWN if node.optional else shape.element or _UNKNOWN
            case ast.ListExpr() | ast.MapExpr():
                return self._made(node, scope)
            case ast.AndExpr() | ast.OrExpr():
                return sum(self.of(arg, scope)[0] for arg in node.args), _SCALAR
            case ast.CondExpr():
                test, _ = self.of(node.test, scope)
                then, otherwise = self.of(node.then, scope), self.of(node.otherwise, scope)
                return test + max(then[0], otherwise[0]), _both(then[1], otherwise[1])
            case ast.Unary():
                cost, shape = self.of(node.operand, scope)
                return cost + 1, shape
            case ast.Binary():
                return self._binary(node, scope)
            case ast.MethodExpr():
                return self._method(node, scope)
            case ast.CallExpr():
                if constant(node):
                    return 0, _result(node.name, self._each(node.args, scope)[1])
                return self._call(node.name, node.args, scope)
        return 0, _SCALAR

    def _each(self, nodes: Sequence[ast.Node], scope: Scope) -> tuple[float, list[Shape]]:
        measures = [self.of(node, scope) for node in nodes]
        return sum(cost for cost, _ in measures), [shape for _, shape in measures]

    def _call(
        self, name: str, nodes: Sequence[ast.Node], scope: Scope, *target: tuple[float, Shape]
    ) -> tuple[float, Shape]:
        """``target``: the receiver of a method, estimated once: a chain would double the work."""
        cost, shapes = self._each(nodes, scope)
        shapes = [*(shape for _, shape in target), *shapes]
        result_shape = _result(name, shapes)
        cost += sum(spent for spent, _ in target)
        if name in TRAVERSALS and shapes[0].kind == "list":
            inner = shapes[0].element or _SCALAR
            if inner.kind in ("string", "bytes"):
                return math.inf, result_shape  # each is read, however long
        return cost + call_cost(name, shapes, result_shape.size), result_shape

    def _made(self, node: ast.ListExpr | ast.MapExpr, scope: Scope) -> tuple[float, Shape]:
        if isinstance(node, ast.ListExpr):
            cost, shapes = self._each(node.elements, scope)
            return cost + LISTED, Shape("list", len(shapes), element=_all(shapes))
        cost, values = self._each(node.values, scope)
        more, keys = self._each(node.keys, scope)
        return cost + more + MAPPED, Shape("map", len(keys), _all(keys), _all(values))

    def _binary(self, node: ast.Binary, scope: Scope) -> tuple[float, Shape]:
        cost, (left, right) = self._each((node.left, node.right), scope)
        cost += _operator(node.op, left, right)
        if node.op == "+" and left.kind in _SIZED | _TEXTUAL:
            added = _both(left, right)
            size = _saturated(left.size + right.size)
            return cost, Shape(left.kind, size, added.key, added.element)
        return cost, _SCALAR

    def _method(self, node: ast.MethodExpr, scope: Scope) -> tuple[float, Shape]:
        name = node.args[0].name if node.args and isinstance(node.args[0], ast.Ident) else ""
        dotted = f"{node.target.name}.{node.name}" if isinstance(node.target, ast.Ident) else ""
        if dotted == "cel.bind":
            cost, value = self.of(node.args[1], scope)
            more, body = self.of(node.args[2], {**scope, name: value})
            return cost + more + _BIND, body
        if dotted and isinstance(node.target, ast.Ident) and node.target.name not in scope:
            return self._call(dotted, node.args, scope)
        cost, target = self.of(node.target, scope)
        if node.name in ("optMap", "optFlatMap") and name:
            more, body = self.of(node.args[1], {**scope, name: target})
            made = node.name == "optMap"  # an optional, of what the body gives
            return 2 * cost + more + _BIND + 2 + made, _unlimited(body)
        if name and node.name in selector_environment().macros:
            turn, shape = self._turn(node, target, scope)
            sorting = _squared([target], 0) + 2 if node.name == "sortBy" else 0
            once = _ONCE.get(node.name, LISTED + 1)
            return cost + _times(target.size, turn) + once + sorting, shape
        return self._call(node.name, node.args, scope, (cost, target))

    def _turn(self, node: ast.MethodExpr, target: Shape, scope: Scope) -> tuple[float, Shape]:
        """Return the cost of one turn of a comprehension, and the shape of its result."""
        names, bodies = loop_parts(node)
        key, element = target.key or _SCALAR, target.element or _UNKNOWN
        first = key if len(names) == 2 or target.kind == "map" else element
        inner = {**scope, **dict(zip(names, (first, element), strict=False))}
        measures = [self.of(body, inner) for body in bodies]
        cost = sum(part for part, _ in measures) + _TURNS.get(node.name, LISTED + 2)
        last = measures[-1][1] if measures else _SCALAR
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


def _operator(op: str, left: Shape, right: Shape) -> float:
    """Return what an operator costs at most; of an attribute, whatever it is."""
    if op == "in":
        return 1 if right.kind == "map" else right.size
    if op == "+":
        return _part(left.size + right.size, 10) if left.kind in _TEXTUAL else 1
    return _part(min(left.size, right.size), 10) if op in _COMPARISONS else 1


def _unlimited(value: Shape) -> Shape:
    """Return a value as one of which cel-go does not know the size, unless it is a scalar."""
    if value.kind not in _SIZED | _TEXTUAL:
        return value
    return Shape(value.kind, math.inf, value.key, value.element, value.fields)


def _all(shapes: Sequence[Shape]) -> Shape | None:
    common: Shape | None = None
    for shape in shapes:
        common = shape if common is None else _both(common, shape)
    return common


_LISTS: Final = frozenset(
    {"distinct", "reverse", "slice", "sort", "dyn", "trim", "lowerAscii", "upperAscii",
     "substring", "charAt", "find"}
)  # fmt: skip
"""What gives no more than it gets."""
_OPTIONAL: Final = frozenset({"value", "optional.of", "optional.ofNonZeroValue"})
_REORDERED: Final = frozenset({"distinct", "reverse", "slice", "sort"})
_TEXTS: Final = frozenset(
    {"format", "join", "replace", "strings.quote", "string", "bytes", "getScheme", "getHost",
     "getHostname", "getPort", "getEscapedPath"}
)  # fmt: skip


def _result(name: str, shapes: Sequence[Shape]) -> Shape:
    """Return how large the value of a call may be."""
    first = shapes[0] if shapes else _SCALAR
    if name in ("or", "orValue") and len(shapes) == 2:
        return _unlimited(_both(*shapes))
    if name in _OPTIONAL:
        return _unlimited(first)
    if name in _REORDERED and first.element is not None:
        return Shape(first.kind, first.size, element=_unlimited(first.element))
    if name in _LISTS:
        return first
    if name in ("min", "max", "first", "last", "sum"):
        return _unlimited(first.element or _UNKNOWN)
    if name in ("split", "findAll"):
        return Shape("list", first.size, element=_UNKNOWN)
    if name in ("string", "bytes", "strings.quote"):
        size = _saturated(max(64, 4 * first.size + 2))
        return Shape("bytes" if name == "bytes" else "string", size)
    if name == "join":
        return Shape("string", _times(first.size, math.inf))
    if name == "flatten":
        inner = first.element or _SCALAR
        made = _unlimited(inner.element) if inner.element else None
        return Shape("list", _times(first.size, inner.size), element=made)
    if name == "lists.range":
        return Shape("list", math.inf, element=_SCALAR)
    if name in ("getQuery", "validate"):
        return Shape("map", math.inf, _UNKNOWN, Shape("list", math.inf, element=_UNKNOWN))
    return _UNKNOWN if name in _TEXTS else _SCALAR
