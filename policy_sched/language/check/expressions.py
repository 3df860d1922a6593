"""Checks one expression: walks its tree, then checks its result type and its size."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.errors import Severity
from policy_sched.language.check import calls as checker_calls
from policy_sched.language.check import names as checker_names
from policy_sched.language.check import operators as checker_operators
from policy_sched.language.check.limits import ElementCount, TooManyError, depth, size, type_depth
from policy_sched.language.check.operators import is_empty_literal
from policy_sched.language.check.scope import Definitions, Local, Scope, Unit, silent
from policy_sched.language.diagnostics import (
    MAX_ELEMENTS,
    MAX_INLINED_DEPTH,
    MAX_NODES,
    MAX_TYPE_DEPTH,
)
from policy_sched.language.stdlib import ANY, DEFINITION, Section
from policy_sched.language.syntax import (
    AndExpr,
    Binary,
    CallExpr,
    CondExpr,
    Const,
    Core,
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
    DURATION,
    ERROR,
    INT,
    RAW,
    RESOURCES,
    SELECTOR,
    STRING,
    UNKNOWN,
    ListType,
    MapType,
    OptionalType,
    QuantityType,
    RecordType,
    Type,
    join,
)

_LITERAL_TYPES = {bool: BOOL, int: INT, float: DOUBLE, str: STRING}


def infer(node: Node, scope: Scope) -> Core:
    """Return the typed tree of ``node``; problems are noted in the scope's unit."""
    match node:
        case Literal(value=value):
            return Const(value=value, type=_LITERAL_TYPES[type(value)], span=node.span)
        case Ident():
            return checker_names.ident(node, scope)
        case Select():
            return checker_names.select(node, scope)
        case IndexExpr():
            return checker_names.index(node, scope)
        case CallExpr():
            return checker_calls.call(node, scope)
        case MethodExpr():
            return checker_calls.method(node, scope)
    return _infer_operator(node, scope)


def _infer_operator(node: Node, scope: Scope) -> Core:
    match node:
        case AndExpr() | OrExpr():
            return checker_operators.logical(node, scope)
        case Binary():
            return checker_operators.binary(node, scope)
        case Unary():
            return checker_operators.unary(node, scope)
        case CondExpr():
            return checker_operators.conditional(node, scope)
        case ListExpr():
            return checker_operators.list_literal(node, scope)
        case MapExpr():
            return checker_operators.map_literal(node, scope)
    return silent(node.span)


def check_tree(
    node: Node,
    section: Section,
    definitions: Definitions,
    *,
    params: Mapping[str, Local] | None = None,
    before_variable: int | None = None,
    before_function: int | None = None,
) -> tuple[Core, Unit]:
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
    if parts > MAX_NODES:
        message = f"the expression has {parts} parts with its functions; at most {MAX_NODES}"
        return scope.wrong("PS501", tree.span, message, "split it with `variables`"), unit
    depths = {f"variables.{v.name}": v.depth for v in definitions.variables.values()}
    unit.depth = depth(tree, functions, depths)
    if unit.depth > MAX_INLINED_DEPTH:
        message = f"nested {unit.depth} deep with its functions and variables"
        message += f"; the limit is {MAX_INLINED_DEPTH}"
        return scope.wrong("PS501", tree.span, message), unit
    variables = {f"variables.{v.name}": v.elements for v in definitions.variables.values()}
    try:
        unit.elements = ElementCount(functions, variables, MAX_ELEMENTS).of(tree)
    except TooManyError:
        message = f"its lists have more than {MAX_ELEMENTS} elements with those of its variables"
        return scope.wrong("PS502", tree.span, message), unit
    if type_depth(tree.type) > MAX_TYPE_DEPTH:
        message = f"its type is nested more than {MAX_TYPE_DEPTH} deep"
        return scope.wrong("PS501", tree.span, message), unit
    return tree, unit


def check_result(tree: Core, section: Section, scope: Scope) -> Core:
    """Check the type of a section's value; return the tree, or a silent one after a problem."""
    kind = tree.type
    if kind in (ERROR, UNKNOWN) or section.name == ANY:
        return tree
    if section.name == DEFINITION:
        return _check_definition(tree, scope)
    if any(join(kind, allowed) is not None for allowed in section.results):
        return tree
    hint = _hint(kind, section)
    if "message" in section.name.lower():
        return scope.wrong("PS306", tree.span, f"a message must be string, found {kind}", hint)
    if section.name == "postBind":
        message = f"postBind must be string, the note of an event, found {kind}"
        return scope.wrong("PS306", tree.span, message, hint)
    if _is_compound(kind):
        message = f"{section.name} must be {section.expected}, found {kind}"
        return scope.wrong("PS305", tree.span, message, hint)
    code = "PS302" if section.results == (INT, DOUBLE) else "PS301"
    message = f"{section.name} must be {section.expected}, found {kind}"
    return scope.wrong(code, tree.span, message, hint)


def _check_definition(tree: Core, scope: Scope) -> Core:
    """A variable or function may be of any type that its text gives away."""
    if is_empty_literal(tree):
        hint = "use it where the type is known, or write an element"
        return scope.wrong("PS205", tree.span, "the type cannot be inferred", hint)
    if tree.type == RAW:
        message = "a parameter whose values have different shapes is only read by builtins"
        return scope.wrong("PS203", tree.span, message)
    return tree


def _is_compound(kind: Type) -> bool:
    compound = isinstance(kind, ListType | MapType | OptionalType | RecordType)
    return compound or kind in (RESOURCES, SELECTOR, RAW)


def _hint(kind: Type, section: Section) -> str:
    if isinstance(kind, OptionalType):
        return "give it a value with .orValue(...), or ask .hasValue()"
    if isinstance(kind, QuantityType) and section.results == (INT, DOUBLE):
        return "take a number with .units() or .value(), or use percent(part, whole)"
    if isinstance(kind, ListType) and section.expected == "bool":
        return "ask .exists(x, ...), .all(x, ...) or .size() > 0"
    if kind == INT and section.expected == "bool":
        return "compare it, such as `> 0`"
    if section.results == (DURATION,):
        return 'write it with its unit, such as 90s or duration("90s")'
    if section.results == (STRING,) and kind in (INT, DOUBLE):
        return "write string(...)"
    return ""
