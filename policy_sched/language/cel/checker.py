"""Checks a selector: names, fields, overloads, and the type of its result.

Theory of operation. The tree is the rule language's own, and so are types, overloads, problems and
positions; the environment is that of devices. A type that only a device tells is ``any``, which
suits everything, so that what is accepted here may still fail for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policy_sched.language.cel import mistakes
from policy_sched.language.cel.environment import (
    STORED_ONLY,
    choose,
    namespaces,
    selector_environment,
)
from policy_sched.language.cel.mistakes import Mistake, mistake
from policy_sched.language.cel.types import ANY, BYTES, NULL, TYPE, UINT, meet, upstream_name
from policy_sched.language.check import CONSTANT_CHECKS
from policy_sched.language.diagnostics import MAX_PATTERN_BYTES
from policy_sched.language.stdlib import Overload, selector_macros
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
    list_of,
    map_of,
    optional_of,
)

Scope = Mapping[str, Type]
TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
_LITERALS: Final = {bool: BOOL, int: INT, float: DOUBLE, str: STRING}
_CEL_LITERALS: Final = {"uint": UINT, "bytes": BYTES, "null_type": NULL}
#: Characters of a constant text that a message shows.
_SHOWN: Final = 80
#: Constant arguments that upstream, too, reads when it compiles.
_READ_UPSTREAM: Final = frozenset({"duration", "timestamp", "matches"})


@dataclass(slots=True)
class Checker:
    """Checks one selector; ``mistakes`` collects what is wrong.

    ``new``: of an object that is being created, for which upstream has fewer functions.
    """

    new: bool = False
    mistakes: list[Mistake] = field(default_factory=list)

    def check(self, node: Node) -> Type:
        """Return the type of the whole expression."""
        variables = selector_environment().variables
        return self._type(node, {name: one.type for name, one in variables.items()})

    def _wrong(self, found: Mistake) -> Type:
        self.mistakes.append(found)
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
                return self._unary(node, scope)
            case Binary():
                return self._binary(node, scope)
            case AndExpr() | OrExpr():
                return self._logic(node, scope)
            case CondExpr():
                return self._cond(node, scope)
            case CallExpr():
                return self._call(node, scope)
            case MethodExpr():
                return self._method(node, scope)
        message = "this syntax is not part of selectors"
        return self._wrong(mistake("PS014", node.span, message, "unsupported syntax"))

    def _ident(self, node: Ident, scope: Scope) -> Type:
        found = scope.get(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return TYPE
        return self._wrong(mistakes.unknown_variable(node, scope))

    def _select(self, node: Select, scope: Scope) -> Type:
        operand = self._type(node.operand, scope)
        inner = operand.element if isinstance(operand, OptionalType) else operand
        found = self._member(inner, node)
        if found != ERROR and (node.optional or isinstance(operand, OptionalType)):
            return found if isinstance(found, OptionalType) else optional_of(found)
        return found

    def _member(self, operand: Type, node: Select) -> Type:
        if operand in (ANY, ERROR):
            return operand
        if isinstance(operand, MapType):
            return operand.value
        at = node.name_span.start - (2 if node.optional else 1)
        fields = selector_environment().fields_of(operand)
        if not fields:
            return self._wrong(mistakes.no_fields(node, operand, at))
        found = fields.get(node.name)
        return found or self._wrong(mistakes.unknown_field(node, operand, fields, at))

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
            span = node.operand.span
            return self._wrong(mistakes.no_index(span, operand, inner, key, optional=node.optional))
        return optional_of(found) if node.optional or inner is not operand else found

    def _element(self, node: Node, scope: Scope, *, optional: bool) -> Type:
        found = self._type(node, scope)
        if not optional or found in (ANY, ERROR):
            return found
        if isinstance(found, OptionalType):
            return found.element
        wanted = optional_of(found)
        return self._wrong(
            mistakes.expected("PS203", node.span, "an element after `?`", wanted, found)
        )

    def _list(self, node: ListExpr, scope: Scope) -> Type:
        element: Type | None = None
        for one, optional in zip(node.elements, node.optional, strict=True):
            found = self._element(one, scope, optional=optional)
            element = self._joined(element, found, one, "the elements differ in type")
        return list_of(ANY if element is None else element)

    def _joined(self, before: Type | None, found: Type, node: Node, what: str) -> Type:
        """Return the type of elements so far; literals hold elements of one type."""
        if before is None or ERROR in (before, found):
            return found if before is None else before
        joined = meet(before, found)
        if joined is None:
            self._wrong(mistakes.expected("PS204", node.span, what, before, found))
        return before if joined is None else joined

    def _map(self, node: MapExpr, scope: Scope) -> Type:
        key: Type | None = None
        value: Type | None = None
        for k, v, optional in zip(node.keys, node.values, node.optional, strict=True):
            key = self._joined(key, self._type(k, scope), k, "the keys differ in type")
            found = self._element(v, scope, optional=optional)
            value = self._joined(value, found, v, "the values differ in type")
        return map_of(ANY if key is None else key, ANY if value is None else value)

    def _unary(self, node: Unary, scope: Scope) -> Type:
        operand = self._type(node.operand, scope)
        if operand == ERROR:
            return ERROR
        found = choose(selector_environment().operators[node.op], [operand])
        if found is not None:
            return found[1]
        message = f"`{node.op}` has no overload for {operand}"
        upstream = mistakes.no_overload_text(f"{node.op}_", [operand])
        return self._wrong(mistake("PS201", node.span, message, upstream))

    def _binary(self, node: Binary, scope: Scope) -> Type:
        kinds = [self._type(node.left, scope), self._type(node.right, scope)]
        if ERROR in kinds:
            return ERROR
        found = choose(selector_environment().operators[node.op], kinds)
        return found[1] if found is not None else self._wrong(mistakes.no_operator(node, kinds))

    def _logic(self, node: AndExpr | OrExpr, scope: Scope) -> Type:
        sign = "&&" if isinstance(node, AndExpr) else "||"
        for one in node.args:
            self._bool(one, scope, f"`{sign}` takes truth values", f" in '_{sign}_'")
        return BOOL

    def _bool(self, node: Node, scope: Scope, what: str, where: str = "") -> None:
        found = self._type(node, scope)
        if found != ERROR and meet(found, BOOL) is None:
            self._wrong(mistakes.expected("PS203", node.span, what, BOOL, found, where))

    def _cond(self, node: CondExpr, scope: Scope) -> Type:
        self._bool(node.test, scope, "the condition before `?`", " in '_?_:_'")
        then, otherwise = self._type(node.then, scope), self._type(node.otherwise, scope)
        if ERROR in (then, otherwise):
            return ERROR
        joined = meet(then, otherwise)
        if joined is not None:
            return joined
        message = f"the two branches have different types: {then} and {otherwise}"
        upstream = mistakes.no_overload_text("_?_:_", [BOOL, then, otherwise])
        at = node.test.span.end
        return self._wrong(mistake("PS204", node.otherwise.span, message, upstream, at=at))

    def _chosen(
        self,
        node: CallExpr | MethodExpr,
        name: str,
        args: Sequence[tuple[Node, Type]],
        candidates: Sequence[Overload],
        *,
        method: bool = False,
    ) -> Type:
        """Return the type of a call, and check its constant arguments."""
        kinds = [kind for _, kind in args]
        if ERROR in kinds:
            return ERROR
        found = choose(candidates, kinds)
        if found is None:
            return self._wrong(mistakes.no_call(node, name, kinds, candidates, method=method))
        overload, result = found
        place, check = CONSTANT_CHECKS.get(overload.id, (0, None))
        written = args[place][0] if args else node
        if check is not None and isinstance(written, Literal) and isinstance(written.value, str):
            self._constant(written, written.value, name, check)
        return result

    def _constant(
        self, node: Literal, text: str, name: str, check: Callable[[str], str | None]
    ) -> None:
        """Report a constant text that the function cannot read."""
        bad = check(text)
        if bad is not None:
            read = name in _READ_UPSTREAM and len(text.encode()) <= MAX_PATTERN_BYTES
            upstream = f"invalid {name} argument" if read else ""
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            self._wrong(mistake("PS012", node.span, f'"{shown}" {bad}', upstream))

    def _args(self, nodes: Sequence[Node], scope: Scope) -> list[tuple[Node, Type]]:
        return [(node, self._type(node, scope)) for node in nodes]

    def _call(self, node: CallExpr, scope: Scope) -> Type:
        if node.name == "has":
            return self._has(node, scope)
        args = self._args(node.args, scope)
        environment = selector_environment()
        candidates = environment.functions.get(node.name)
        if candidates is not None:
            return self._chosen(node, node.name, args, candidates)
        if node.name in environment.methods and ERROR not in [kind for _, kind in args]:
            found = mistakes.unknown_function(node.name_span, node.name, None)
            upstream = mistakes.no_overload_text(node.name, [kind for _, kind in args])
            return self._wrong(Mistake(found.problem, found.at, upstream))
        return self._wrong(mistakes.unknown_function(node.name_span, node.name, None))

    def _has(self, node: CallExpr, scope: Scope) -> Type:
        if len(node.args) == 1 and isinstance(node.args[0], Select):
            self._type(node.args[0], scope)
            return BOOL
        message = "has() takes one field selection, such as has(device.attributes.a)"
        hint = "for a key that is no name write `key in map`"
        upstream = "invalid argument to has() macro"
        return self._wrong(mistake("PS107", node.span, message, upstream, hint=hint))

    def _method(self, node: MethodExpr, scope: Scope) -> Type:
        environment = selector_environment()
        if isinstance(node.target, Ident) and node.target.name not in scope:
            dotted = f"{node.target.name}.{node.name}"
            if dotted == "cel.bind":
                return self._bind(node, scope)
            if dotted in environment.functions:
                args = self._args(node.args, scope)
                return self._chosen(node, dotted, args, environment.functions[dotted])
            if node.target.name in namespaces():
                found = mistakes.unknown_function(node.name_span, dotted, None, node.name)
                return self._wrong(found)
        if node.name in ("optMap", "optFlatMap") and len(node.args) == 2:
            return self._opt_map(node, scope)
        if _is_loop(node.name) and node.args and isinstance(node.args[0], Ident):
            return self._loop(node, scope)
        args = self._args((node.target, *node.args), scope)
        if self.new and node.name in STORED_ONLY:
            return self._wrong(mistakes.stored_only(node))
        if node.name in ("or", "orValue"):
            return self._or(node, args)
        if node.name not in environment.methods and node.name not in environment.functions:
            kind = None if args[0][1] == ERROR else args[0][1]
            return self._wrong(mistakes.unknown_function(node.name_span, node.name, kind))
        candidates = environment.methods.get(node.name, ())
        return self._chosen(node, node.name, args, candidates, method=True)

    def _or(self, node: MethodExpr, args: Sequence[tuple[Node, Type]]) -> Type:
        kinds = [kind for _, kind in args]
        if ERROR in kinds:
            return ERROR
        whole = optional_of(ANY) if kinds[0] == ANY else kinds[0]
        if len(kinds) == 2 and isinstance(whole, OptionalType):
            wanted = whole if node.name == "or" else whole.element
            joined = meet(wanted, kinds[1])
            if joined is not None:
                return joined
        candidates = selector_environment().methods[node.name]
        return self._wrong(mistakes.no_call(node, node.name, kinds, candidates, method=True))

    def _bind(self, node: MethodExpr, scope: Scope) -> Type:
        name = node.args[0] if len(node.args) == 3 else None
        if not isinstance(name, Ident):
            upstream = "cel.bind() variable names must be simple identifiers"
            message = "write cel.bind(x, value, body)"
            return self._wrong(mistake("PS108", node.span, message, upstream))
        value = self._type(node.args[1], scope)
        return self._type(node.args[2], {**scope, name.name: value})

    def _opt_map(self, node: MethodExpr, scope: Scope) -> Type:
        target = self._type(node.target, scope)
        name = node.args[0]
        if not isinstance(name, Ident):
            upstream = f"{node.name}() variable name must be a simple identifier"
            return self._wrong(
                mistake("PS108", name.span, "a macro's variable is a simple name", upstream)
            )
        if target not in (ANY, ERROR) and not isinstance(target, OptionalType):
            message = f"{node.name}() needs an optional, found {target}"
            upstream = mistakes.no_overload_text("hasValue", [target], method=True)
            at = node.name_span.end
            return self._wrong(mistake("PS206", node.target.span, message, upstream, at=at))
        element = target.element if isinstance(target, OptionalType) else target
        found = self._type(node.args[1], {**scope, name.name: element})
        return optional_of(found) if node.name == "optMap" and found != ERROR else found

    def _loop(self, node: MethodExpr, scope: Scope) -> Type:
        target = self._type(node.target, scope)
        names, bodies = loop_parts(node)
        if target == ERROR:
            return ERROR
        if not bodies or (node.name == "sortBy" and len(bodies) > 1):
            count = len(node.args)
            message = f"{node.name}() does not take {count} argument{'s' * (count != 1)}"
            upstream = mistakes.undeclared(node.name)
            at = node.name_span.end
            return self._wrong(mistake("PS107", node.name_span, message, upstream, at=at))
        if isinstance(target, ListType):
            kinds = [target.element] if len(names) == 1 else [INT, target.element]
        elif isinstance(target, MapType):
            kinds = [target.key, target.value]
        elif target == ANY:
            kinds = [ANY, ANY]
        else:
            return self._no_range(node, target)
        inner = {**scope, **dict(zip(names, kinds, strict=False))}
        for body in bodies[: predicates(node, len(bodies))]:
            self._bool(body, inner, f"the test of {node.name}()")
        last = self._type(bodies[-1], inner) if makes(node) else BOOL
        match node.name:
            case "filter":
                return list_of(kinds[0])
            case "map" | "transformList":
                return list_of(last)
            case "transformMap":
                return map_of(INT if isinstance(target, ListType) else kinds[0], last)
            case "transformMapEntry":
                return last
            case "sortBy":
                return target
        return BOOL

    def _no_range(self, node: MethodExpr, target: Type) -> Type:
        message = f"{node.name}() needs a list or map, found {target}"
        hint = "for an optional write `.optMap(x, ...)`" if isinstance(target, OptionalType) else ""
        upstream = f"expression of type '{upstream_name(target)}' cannot be range of a"
        upstream += " comprehension (must be list, map, or dynamic)"
        return self._wrong(mistake("PS206", node.target.span, message, upstream, hint=hint))


def _is_loop(name: str) -> bool:
    """Return whether a name is that of a macro over a list or map."""
    macro = selector_macros().get(name)
    return macro is not None and not macro.of_optional


def loop_parts(node: MethodExpr) -> tuple[list[str], tuple[Node, ...]]:
    """Return the variables and the bodies of a comprehension."""
    two = node.name.startswith("transform") or (
        node.name in ("all", "exists", "existsOne") and len(node.args) == 3
    )
    count = 2 if two else 1
    names = [arg.name for arg in node.args[:count] if isinstance(arg, Ident)]
    bodies = node.args[count:]
    return names, bodies if len(names) == count and len(bodies) in (1, 2) else ()


def makes(node: MethodExpr) -> bool:
    """Tell whether the last body of a comprehension gives a value, not a condition."""
    return node.name in ("map", "sortBy") or node.name.startswith("transform")


def predicates(node: MethodExpr, bodies: int) -> int:
    """Return how many of the bodies are conditions, which come first."""
    return bodies - 1 if makes(node) else bodies
