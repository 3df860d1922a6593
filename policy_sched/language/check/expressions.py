"""The walk over a syntax tree: each kind of node goes to the check that knows it."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.errors import Severity
from policy_sched.language.check import calls as checker_calls
from policy_sched.language.check import names as checker_names
from policy_sched.language.check import operators as checker_operators
from policy_sched.language.check.limits import depth, size
from policy_sched.language.check.list_sizes import ElementCount, TooManyError, type_depth
from policy_sched.language.check.scope import Definitions, Local, Scope, Unit, silent
from policy_sched.language.check.sections import check_result
from policy_sched.language.diagnostics import (
    MAX_ELEMENTS,
    MAX_INLINED_DEPTH,
    MAX_NODES,
    MAX_TYPE_DEPTH,
)
from policy_sched.language.stdlib import Section
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
from policy_sched.language.values import BOOL, DOUBLE, INT, STRING

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
