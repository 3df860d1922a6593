"""Checks an expression of CEL: names, fields, overloads, and the type of its result.

Theory of operation. The tree is the rule language's own; every problem is reported with the place
that cel-go gives it. What is ``any`` is decided when there is a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policy_sched.language.cel.functions import FUNCTIONS, METHODS, NAMESPACES, OPERATORS
from policy_sched.language.cel.library import Function
from policy_sched.language.cel.types import (
    ANY,
    BYTES,
    NULL,
    TYPE,
    UINT,
    list_of,
    map_of,
    meet,
    optional_of,
    shown,
    substituted,
)
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
from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    ERROR,
    INT,
    STRING,
    ListType,
    MapType,
    OptionalType,
    Type,
)

Scope = Mapping[str, Type]
TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
LOOPS: Final = frozenset(
    {"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap",
     "transformMapEntry", "sortBy"}
)  # fmt: skip
_LITERALS: Final = {bool: BOOL, int: INT, float: DOUBLE, str: STRING}
_CEL_LITERALS: Final = {"uint": UINT, "bytes": BYTES, "null_type": NULL}


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name: variables with their types, and the fields of their types."""

    variables: Mapping[str, Type]
    fields: Mapping[Type, Mapping[str, Type]]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and at which character of the text."""

    at: int
    message: str


@dataclass(slots=True)
class Checker:
    """Checks one expression in an environment; ``faults`` collects what is wrong."""

    environment: Environment
    faults: list[Fault] = field(default_factory=list)

    def check(self, node: Node) -> Type:
        """Return the type of the whole expression."""
        return self._type(node, self.environment.variables)

    def _fault(self, at: int, message: str) -> Type:
        self.faults.append(Fault(at, message))
        return ERROR

    def _type(self, node: Node, scope: Scope) -> Type:  # noqa: PLR0911 - one for each form
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case CelLiteral():
                return _CEL_LITERALS[node.kind]
            case Ident():
                return self._ident(node, scope)
            case Select():
                return self._select(node, scope)
            case IndexExpr():
                return self._index(node, scope)
            case ListExpr():
                return self._list(node, scope)
            case MapExpr():
                return self._map(node, scope)
            case Unary():
                args = [self._type(node.operand, scope)]
                return self._overload(OPERATORS, f"{node.op}_", args, node.span.start)
            case Binary():
                args = [self._type(node.left, scope), self._type(node.right, scope)]
                return self._overload(OPERATORS, f"_{node.op}_", args, node.op_span.start)
            case AndExpr() | OrExpr():
                return self._logic(node, scope)
            case CondExpr():
                return self._cond(node, scope)
            case CallExpr():
                return self._call(node, scope)
            case MethodExpr():
                return self._method(node, scope)
        return self._fault(node.span.start, "unsupported syntax")

    def _ident(self, node: Ident, scope: Scope) -> Type:
        found = scope.get(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return TYPE
        return self._fault(
            node.span.start, f"undeclared reference to '{node.name}' (in container '')"
        )

    def _select(self, node: Select, scope: Scope) -> Type:
        operand = self._type(node.operand, scope)
        at = node.name_span.start - (2 if node.optional else 1)
        inner = operand.element if isinstance(operand, OptionalType) else operand
        found = self._member(inner, node.name, at)
        if found != ERROR and (node.optional or isinstance(operand, OptionalType)):
            return found if isinstance(found, OptionalType) else optional_of(found)
        return found

    def _member(self, operand: Type, name: str, at: int) -> Type:
        if operand in (ANY, ERROR):
            return operand
        if isinstance(operand, MapType):
            return operand.value
        fields = self.environment.fields.get(operand)
        if fields is None:
            return self._fault(at, f"type '{operand}' does not support field selection")
        return fields.get(name) or self._fault(at, f"undefined field '{name}'")

    def _index(self, node: IndexExpr, scope: Scope) -> Type:
        operand, key = self._type(node.operand, scope), self._type(node.index, scope)
        if ERROR in (operand, key):
            return ERROR
        inner = operand.element if isinstance(operand, OptionalType) else operand
        found: Type | None = None
        if inner == ANY:
            found = ANY
        elif isinstance(inner, ListType) and meet(key, INT) is not None:
            found = inner.element
        elif isinstance(inner, MapType) and meet(key, inner.key) is not None:
            found = inner.value
        if found is None:
            name = "_[?_]" if node.optional else "_[_]"
            at = node.operand.span.end
            return self._fault(at, _no_overload(name, [operand, key], method=False))
        return optional_of(found) if node.optional or inner is not operand else found

    def _element(self, node: Node, scope: Scope, *, optional: bool) -> Type:
        found = self._type(node, scope)
        if not optional or found in (ANY, ERROR):
            return found
        if isinstance(found, OptionalType):
            return found.element
        return self._fault(
            node.span.start, f"expected type 'optional_type({found})' but found '{found}'"
        )

    def _list(self, node: ListExpr, scope: Scope) -> Type:
        element: Type | None = None
        for one, optional in zip(node.elements, node.optional, strict=True):
            found = self._element(one, scope, optional=optional)
            element = self._joined(element, found, one)
        return list_of(ANY if element is None else element)

    def _joined(self, before: Type | None, found: Type, node: Node) -> Type:
        """Return the type of elements so far; literals hold elements of one type."""
        if before is None or ERROR in (before, found):
            return found if before is None else before
        joined = meet(before, found)
        if joined is None:
            self._fault(node.span.start, f"expected type '{before}' but found '{found}'")
        return before if joined is None else joined

    def _map(self, node: MapExpr, scope: Scope) -> Type:
        key: Type | None = None
        value: Type | None = None
        for k, v, optional in zip(node.keys, node.values, node.optional, strict=True):
            key = self._joined(key, self._type(k, scope), k)
            value = self._joined(value, self._element(v, scope, optional=optional), v)
        return map_of(ANY if key is None else key, ANY if value is None else value)

    def _logic(self, node: AndExpr | OrExpr, scope: Scope) -> Type:
        name = "_&&_" if isinstance(node, AndExpr) else "_||_"
        for one in node.args:
            self._bool(one, scope, name)
        return BOOL

    def _bool(self, node: Node, scope: Scope, name: str) -> None:
        found = self._type(node, scope)
        if found != ERROR and meet(found, BOOL) is None:
            self._fault(node.span.start, f"expected type 'bool' but found '{found}' in '{name}'")

    def _cond(self, node: CondExpr, scope: Scope) -> Type:
        self._bool(node.test, scope, "_?_:_")
        then, otherwise = self._type(node.then, scope), self._type(node.otherwise, scope)
        if ERROR in (then, otherwise):
            return ERROR
        joined = meet(then, otherwise)
        if joined is None:
            at = node.test.span.end
            return self._fault(at, _no_overload("_?_:_", [BOOL, then, otherwise], method=False))
        return joined

    def _overload(
        self, table: Mapping[str, Sequence[Function]], name: str, args: list[Type], at: int
    ) -> Type:
        if ERROR in args:
            return ERROR
        results: list[Type] = []
        for function in table.get(name, ()):
            bound = function.takes(args)
            if bound is not None:
                results.append(substituted(function.result, bound))
        if not results:
            return self._fault(at, _no_overload(name, args, method=table is METHODS))
        same = all(result == results[0] for result in results)
        return results[0] if same else ANY

    def _args(self, nodes: Sequence[Node], scope: Scope) -> list[Type]:
        return [self._type(node, scope) for node in nodes]

    def _call(self, node: CallExpr, scope: Scope) -> Type:
        if node.name == "has":
            if len(node.args) != 1 or not isinstance(node.args[0], Select):
                return self._fault(node.span.start, "invalid argument to has() macro")
            self._type(node.args[0], scope)
            return BOOL
        at = node.name_span.end
        if node.name not in FUNCTIONS and node.name not in METHODS:
            self._args(node.args, scope)
            return self._fault(at, f"undeclared reference to '{node.name}' (in container '')")
        return self._overload(FUNCTIONS, node.name, self._args(node.args, scope), at)

    def _method(self, node: MethodExpr, scope: Scope) -> Type:
        at = node.name_span.end
        if isinstance(node.target, Ident) and node.target.name not in scope:
            dotted = f"{node.target.name}.{node.name}"
            if dotted == "cel.bind":
                return self._bind(node, scope)
            if dotted in FUNCTIONS:
                return self._overload(FUNCTIONS, dotted, self._args(node.args, scope), at)
            if node.target.name in NAMESPACES:
                return self._fault(at, f"undeclared reference to '{node.name}' (in container '')")
        if node.name in ("optMap", "optFlatMap") and len(node.args) == 2:
            return self._opt_map(node, scope)
        if node.name in LOOPS and node.args and isinstance(node.args[0], Ident):
            return self._loop(node, scope)
        target = self._type(node.target, scope)
        args = self._args(node.args, scope)
        if node.name in ("or", "orValue"):
            return self._or(node, target, args)
        if node.name not in METHODS and node.name not in FUNCTIONS:
            return self._fault(at, f"undeclared reference to '{node.name}' (in container '')")
        return self._overload(METHODS, node.name, [target, *args], at)

    def _or(self, node: MethodExpr, target: Type, args: list[Type]) -> Type:
        if ERROR in (target, *args):
            return ERROR
        whole = optional_of(ANY) if target == ANY else target
        if len(args) == 1 and isinstance(whole, OptionalType):
            wanted = whole if node.name == "or" else whole.element
            joined = meet(wanted, args[0])
            if joined is not None:
                return joined
        at = node.name_span.end
        return self._fault(at, _no_overload(node.name, [target, *args], method=True))

    def _bind(self, node: MethodExpr, scope: Scope) -> Type:
        if len(node.args) != 3 or not isinstance(node.args[0], Ident):
            return self._fault(
                node.span.start, "cel.bind() variable names must be simple identifiers"
            )
        value = self._type(node.args[1], scope)
        return self._type(node.args[2], {**scope, node.args[0].name: value})

    def _opt_map(self, node: MethodExpr, scope: Scope) -> Type:
        target = self._type(node.target, scope)
        if not isinstance(node.args[0], Ident):
            return self._fault(
                node.span.start, f"{node.name}() variable name must be a simple identifier"
            )
        if target not in (ANY, ERROR) and not isinstance(target, OptionalType):
            return self._fault(node.name_span.end, _no_overload("hasValue", [target], method=True))
        element = target.element if isinstance(target, OptionalType) else target
        found = self._type(node.args[1], {**scope, node.args[0].name: element})
        return optional_of(found) if node.name == "optMap" and found != ERROR else found

    def _loop(self, node: MethodExpr, scope: Scope) -> Type:
        target = self._type(node.target, scope)
        names, bodies = loop_parts(node)
        if target == ERROR or not bodies or (node.name == "sortBy" and len(names) > 1):
            return (
                ERROR
                if target == ERROR
                else self._fault(
                    node.name_span.end, f"undeclared reference to '{node.name}' (in container '')"
                )
            )
        if isinstance(target, ListType):
            kinds = [target.element] if len(names) == 1 else [INT, target.element]
        elif isinstance(target, MapType):
            kinds = [target.key, target.value]
        elif target == ANY:
            kinds = [ANY, ANY]
        else:
            message = f"expression of type '{target}' cannot be range of a comprehension"
            message += " (must be list, map, or dynamic)"
            return self._fault(node.target.span.start, message)
        inner = {**scope, **dict(zip(names, kinds, strict=False))}
        found = [self._type(body, inner) for body in bodies]
        for body, kind in zip(bodies[: predicates(node, len(bodies))], found, strict=False):
            if kind != ERROR and meet(kind, BOOL) is None:
                self._fault(body.span.start, f"expected type 'bool' but found '{kind}'")
        match node.name:
            case "filter":
                return list_of(kinds[0])
            case "map" | "transformList":
                return list_of(found[-1])
            case "transformMap":
                return map_of(INT if isinstance(target, ListType) else kinds[0], found[-1])
            case "transformMapEntry":
                return found[-1]
            case "sortBy":
                return target
        return BOOL


def loop_parts(node: MethodExpr) -> tuple[list[str], tuple[Node, ...]]:
    """Return the variables and the bodies of a comprehension."""
    two = node.name.startswith("transform") or (
        node.name in ("all", "exists", "existsOne") and len(node.args) == 3
    )
    count = 2 if two else 1
    names = [arg.name for arg in node.args[:count] if isinstance(arg, Ident)]
    bodies = node.args[count:]
    return names, bodies if len(names) == count and len(bodies) in (1, 2) else ()


def predicates(node: MethodExpr, bodies: int) -> int:
    """Return how many of the bodies are conditions, which come first."""
    transforms = node.name == "map" or node.name.startswith("transform")
    if node.name == "sortBy":
        return 0
    return bodies - 1 if transforms else bodies


def _no_overload(name: str, args: Sequence[Type], *, method: bool) -> str:
    applied = f"{args[0]}.{shown(args[1:])}" if method else shown(args)
    return f"found no matching overload for '{name}' applied to '{applied}'"
