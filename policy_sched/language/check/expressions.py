"""Checks one expression: walks its tree, then checks its result type and its size.

Sizes count functions as inlined and variables as written out. A literal's elements are computed
one by one, and a variable that is an element of two literals is computed twice where it is compared
or shown. So ``[variables.v, variables.v]``, a few times over, has more elements than any memory
holds, with types that are as deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from policy_sched.errors import Severity
from policy_sched.language import diagnostics, stdlib
from policy_sched.language.check import calls, operators
from policy_sched.language.check.scope import (
    Definitions,
    Local,
    Scope,
    Unit,
    ident,
    index,
    select,
    silent,
)
from policy_sched.language.syntax import ast
from policy_sched.language.values import types


def _args(tree: ast.Call | ast.UserCall | ast.And | ast.Or) -> tuple[ast.Core, ...]:
    return tree.args


def _entries(tree: ast.MapLit) -> tuple[ast.Core, ...]:
    return tuple(part for pair in zip(tree.keys, tree.values, strict=True) for part in pair)


def _of_macro(tree: ast.Macro) -> tuple[ast.Core, ...]:
    parts = (tree.operand, tree.first, tree.test, tree.body)
    return tuple(part for part in parts if part is not None)


#: By class: a table is looked up in a third of the time of a ``match``, and every lint walks trees.
_CHILDREN: Final[dict[type[ast.Core], Callable[[Any], tuple[ast.Core, ...]]]] = {
    ast.Field: lambda tree: (tree.operand,),
    ast.Index: lambda tree: (tree.operand, tree.index),
    ast.Has: lambda tree: (tree.operand, tree.key),
    **dict.fromkeys((ast.Call, ast.UserCall, ast.And, ast.Or), _args),
    ast.Cond: lambda tree: (tree.test, tree.then, tree.otherwise),
    ast.ListLit: lambda tree: tree.elements,
    ast.MapLit: _entries,
    ast.Let: lambda tree: (tree.value, tree.body),
    ast.Macro: _of_macro,
}


def children(tree: ast.Core) -> tuple[ast.Core, ...]:
    """Return the trees right below ``tree``, in the order of their evaluation."""
    below = _CHILDREN.get(type(tree))
    return () if below is None else below(tree)


def walk(tree: ast.Core) -> Iterator[ast.Core]:
    """Yield every part of a tree, outer ones first."""
    stack = [tree]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(children(part)))


def size(tree: ast.Core, functions: Mapping[str, ast.UserFunction]) -> int:
    """Return the number of nodes of ``tree`` with its own functions inlined.

    Calls of functions that are not in ``functions`` count as one node.
    """
    return _size(tree, functions, {})


def _size(tree: ast.Core, functions: Mapping[str, ast.UserFunction], sizes: dict[str, int]) -> int:
    """Return the size; ``known``: sizes of functions, by name."""
    total = 0
    for part in walk(tree):
        total += 1
        if isinstance(part, ast.UserCall) and part.name in functions:
            if part.name not in sizes:
                sizes[part.name] = _size(functions[part.name].body, functions, sizes)
            total += sizes[part.name]
    return total


def depth(
    tree: ast.Core, functions: Mapping[str, ast.UserFunction], variables: Mapping[str, int]
) -> int:
    """Return how deep ``tree`` is with its own functions and variables written out.

    ``variables``: the depth of each, by ``variables.NAME``.
    """
    below = max((depth(child, functions, variables) for child in children(tree)), default=0)
    if isinstance(tree, ast.Var):
        below = variables.get(tree.name, 0)
    elif isinstance(tree, ast.UserCall) and tree.name in functions:
        below += depth(functions[tree.name].body, functions, variables)
    return below + 1


_HOLDERS: Final = (types.ListType, types.MapType, types.OptionalType, types.RecordType)


class TooManyError(Exception):
    """A list or map has more elements than the limit."""


class ElementCount:
    """Counts elements; ``functions`` and ``variables`` (by ``variables.NAME``) are known."""

    def __init__(
        self, functions: Mapping[str, ast.UserFunction], variables: Mapping[str, int], limit: int
    ) -> None:
        self._functions = functions
        self._variables = variables
        self._limit = limit

    def of(self, tree: ast.Core) -> int:
        """Return how many elements the value of ``tree`` has. Raises TooManyError."""
        return self._of(tree, {})

    def _of(self, tree: ast.Core, local: Mapping[str, int]) -> int:
        """Return the number of elements; ``local``: those of macro variables and parameters."""
        match tree:
            case ast.Var():
                return local.get(tree.name, self._variables.get(tree.name, 0))
            case ast.ListLit() | ast.MapLit():
                count = sum(max(1, self._of(child, local)) for child in children(tree))
            case ast.Let():
                count = self._of(tree.body, {**local, tree.name: self._of(tree.value, local)})
            case ast.UserCall() if tree.name in self._functions:
                function = self._functions[tree.name]
                args = [self._of(arg, local) for arg in tree.args]
                count = self._of(function.body, dict(zip(function.params, args, strict=True)))
            case ast.Macro():
                count = self._macro(tree, local)
            case _:
                count = sum(self._of(child, local) for child in children(tree))
        if count > self._limit:
            raise TooManyError
        return count if isinstance(tree.type, _HOLDERS) else 0

    def _macro(self, tree: ast.Macro, local: Mapping[str, int]) -> int:
        """Return the elements of a loop's result, whose body is there for each of its operand's.

        What the body takes of an element is there once for each; what it writes out itself is there
        as often as there are elements.
        """
        operand = self._of(tree.operand, local)
        if tree.first is not None:
            operand += self._of(tree.first, local)
        if tree.test is not None:
            self._of(tree.test, self._inner(tree, local, operand))
        if tree.body is None:
            return operand
        alone, within = self._inner(tree, local, 0), self._inner(tree, local, operand)
        own = self._of(tree.body, alone)
        whole = own if within == alone else self._of(tree.body, within)
        return max(operand, operand * own + whole - own, own)

    def _inner(self, tree: ast.Macro, local: Mapping[str, int], elements: int) -> Mapping[str, int]:
        """Return the counts of what is visible in a loop, all elements of its operand as one."""
        return {**local, **dict.fromkeys(tree.names, elements if _nested(tree.operand.type) else 0)}


def _nested(kind: types.Type) -> bool:
    """Return whether the elements of a list or map hold others."""
    inner = kind.value if isinstance(kind, types.MapType) else getattr(kind, "element", None)
    return isinstance(inner, _HOLDERS)


_LITERAL_TYPES: Final = {bool: types.BOOL, int: types.INT, float: types.DOUBLE, str: types.STRING}
_CEL_LITERALS: Final = {"uint": types.UINT, "bytes": types.BYTES, "null_type": types.NULL}


def infer(node: ast.Node, scope: Scope) -> ast.Core:
    """Return the typed tree of ``node``; problems are noted in the scope's unit."""
    match node:
        case ast.Literal(value=value):
            return ast.Const(value=value, type=_LITERAL_TYPES[type(value)], span=node.span)
        case ast.CelLiteral(kind=kind, value=value):
            return ast.Const(value=value, type=_CEL_LITERALS[kind], span=node.span)
        case ast.Ident():
            return ident(node, scope)
        case ast.Select():
            return select(node, scope)
        case ast.IndexExpr():
            return index(node, scope)
        case ast.CallExpr():
            return calls.call(node, scope)
        case ast.MethodExpr():
            return calls.method(node, scope)
    return _infer_operator(node, scope)


def _infer_operator(node: ast.Node, scope: Scope) -> ast.Core:
    match node:
        case ast.AndExpr() | ast.OrExpr():
            return operators.logical(node, scope)
        case ast.Binary():
            return operators.binary(node, scope)
        case ast.Unary():
            return operators.unary(node, scope)
        case ast.CondExpr():
            return operators.conditional(node, scope)
        case ast.ListExpr():
            return operators.list_literal(node, scope)
        case ast.MapExpr():
            return operators.map_literal(node, scope)
    return silent(node.span)


def check_tree(
    node: ast.Node,
    section: stdlib.Section,
    definitions: Definitions,
    *,
    params: Mapping[str, Local] | None = None,
    before_variable: int | None = None,
    before_function: int | None = None,
) -> tuple[ast.Core, Unit]:
    """Check a parsed expression as a value of ``section``.

    ``params`` are the parameters of the function that the expression is the body of;
    ``before_variable`` or ``before_function`` is the place of the definition that it is the text
    of. Returns the tree, of type ERROR after a mistake, and what was found.
    """
    unit = Unit(definitions, section, infer, before_variable, before_function)
    scope = Scope(unit, params or {})
    tree = check_result(infer(node, scope), section, scope)
    if any(problem.severity is Severity.ERROR for problem in unit.problems):
        return silent(node.span), unit
    functions = {f.name: f.function for f in definitions.functions.values() if f.function}
    parts = size(tree, functions)
    if parts > diagnostics.MAX_NODES:
        message = (
            f"the expression has {parts} parts with its functions; at most {diagnostics.MAX_NODES}"
        )
        return scope.wrong("PS501", tree.span, message, "split it with `variables`"), unit
    depths = {f"variables.{v.name}": v.depth for v in definitions.variables.values()}
    unit.depth = depth(tree, functions, depths)
    if unit.depth > diagnostics.MAX_INLINED_DEPTH:
        message = f"nested {unit.depth} deep with its functions and variables"
        message += f"; the limit is {diagnostics.MAX_INLINED_DEPTH}"
        return scope.wrong("PS501", tree.span, message), unit
    variables = {f"variables.{v.name}": v.elements for v in definitions.variables.values()}
    try:
        unit.elements = ElementCount(functions, variables, diagnostics.MAX_ELEMENTS).of(tree)
    except TooManyError:
        most = diagnostics.MAX_ELEMENTS
        message = f"its lists have more than {most} elements with those of its variables"
        return scope.wrong("PS502", tree.span, message), unit
    if types.type_depth(tree.type) > diagnostics.MAX_TYPE_DEPTH:
        message = f"its type is nested more than {diagnostics.MAX_TYPE_DEPTH} deep"
        return scope.wrong("PS501", tree.span, message), unit
    return tree, unit


def check_selector(node: ast.Node, environment: stdlib.Environment) -> tuple[types.Type, Unit]:
    """Check a parsed selector over devices: its type, and what was found.

    What cel-go accepts has a type, though a problem may be reported. Selectors have the limits of
    their length and cost only.
    """
    definitions = Definitions(environment, types.RecordType("record"))
    scope = Scope(Unit(definitions, environment.section("selector"), infer))
    tree = infer(node, scope)
    check_result(tree, scope.unit.section, scope)
    return tree.type, scope.unit


def check_result(tree: ast.Core, section: stdlib.Section, scope: Scope) -> ast.Core:
    """Check the type of a section's value; return the tree, or a silent one after a problem."""
    kind = tree.type
    if kind in (types.ERROR, types.UNKNOWN) or section.name == stdlib.ANY:
        return tree
    if section.name == stdlib.DEFINITION:
        return _check_definition(tree, scope)
    if any(types.join(kind, allowed) is not None for allowed in section.results):
        return tree
    hint = _hint(kind, section)
    if "message" in section.name.lower():
        return scope.wrong("PS306", tree.span, f"a message must be string, found {kind}", hint)
    if section.name == "postBind":
        message = f"postBind must be string, the note of an event, found {kind}"
        return scope.wrong("PS306", tree.span, message, hint)
    code = "PS302" if section.results == (types.INT, types.DOUBLE) else "PS301"
    code = "PS305" if _is_compound(kind) and section.name != "selector" else code
    message = f"{section.name} must be {section.expected}, found {kind}"
    return scope.wrong(code, tree.span, message, hint)


def _check_definition(tree: ast.Core, scope: Scope) -> ast.Core:
    """A variable or function may be of any type that its text gives away."""
    if operators.is_empty_literal(tree):
        hint = "use it where the type is known, or write an element"
        return scope.wrong("PS205", tree.span, "the type cannot be inferred", hint)
    if tree.type == types.RAW:
        message = "a parameter whose values have different shapes is only read by builtins"
        return scope.wrong("PS203", tree.span, message)
    return tree


def _is_compound(kind: types.Type) -> bool:
    compound = isinstance(
        kind, types.ListType | types.MapType | types.OptionalType | types.RecordType
    )
    return compound or kind in (types.RESOURCES, types.SELECTOR, types.RAW)


def _hint(kind: types.Type, section: stdlib.Section) -> str:
    if isinstance(kind, types.OptionalType):
        return "give it a value with .orValue(...), or test .hasValue()"
    if isinstance(kind, types.QuantityType) and section.results == (types.INT, types.DOUBLE):
        return "take a number with .units() or .value(), or use percent(part, whole)"
    if isinstance(kind, types.ListType) and section.expected == "bool":
        return "write .exists(x, ...), .all(x, ...) or .size() > 0"
    if isinstance(kind, types.ListType) and section.name == "aggregates.by":
        return "write one rule for each part of the key: by: [FIRST, SECOND]"
    if kind.name in ("quantity", "semver") and section.name == "selector":
        return f'compare it, such as .isGreaterThan({kind}("..."))'
    if kind == types.INT and section.expected == "bool":
        return "compare it, such as `> 0`"
    if section.name == "selector":
        return "compare it, such as `== ...`"
    if section.results == (types.DURATION,):
        return 'write it with its unit, such as 90s or duration("90s")'
    if section.results == (types.STRING,) and kind in (types.INT, types.DOUBLE):
        return "write string(...)"
    return ""
