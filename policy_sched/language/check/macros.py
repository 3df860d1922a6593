"""Checks macros, whose arguments bind variables: has, all, map, cel.bind..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.language.check.scope import Scope, no_overload, select_from, silent, undeclared
from policy_sched.language.diagnostics import MAX_MACRO_NESTING, MAX_MACROS
from policy_sched.language.stdlib import MacroForms, choose, settle
from policy_sched.language.syntax import ast
from policy_sched.language.values import types


def is_macro(node: ast.MethodExpr, scope: Scope) -> bool:
    """Return whether a method call is a macro; ``list.sum()`` without arguments is a method."""
    macro = scope.environment.macros.get(node.name)
    return macro is not None and not (node.name == "sum" and not node.args)


def has(node: ast.CallExpr, scope: Scope) -> ast.Core:
    """Check ``has(operand.field)``."""
    target = node.args[0] if len(node.args) == 1 else None
    if target is None or not isinstance(target, ast.Select):
        hint = "for a key that is no name write `key in map`"
        example = "device.attributes.a" if scope.environment.dynamic else "node.labels.zone"
        message = f"has() takes one field selection, such as has({example})"
        cel = "invalid argument to has() macro"
        return scope.wrong("PS107", node.span, message, hint, cel=cel)
    operand = scope.infer(target.operand)
    kind = operand.type
    if kind == types.ERROR:
        return silent(node.span)
    if isinstance(kind, types.OptionalType) and not scope.environment.dynamic:
        hint = f"write `.?{target.name}.hasValue()` instead"
        return scope.wrong("PS201", target.operand.span, f"has() does not look into {kind}", hint)
    if kind in (types.RESOURCES, types.UNKNOWN, types.DYN) or isinstance(kind, types.MapType):
        key = ast.Const(value=target.name, type=types.STRING, span=target.name_span)
        return ast.Has(operand=operand, key=key, type=types.BOOL, span=node.span)
    field = select_from(operand, target, scope)
    if field.type == types.ERROR:
        return silent(node.span)
    if not isinstance(field.type, types.OptionalType):
        scope.read_whole(field.type)
        field = ast.Call(
            overload="optional_ofNonZeroValue_any",
            args=(field,),
            type=types.optional_of(field.type),
            span=field.span,
        )
    return ast.Call(overload="hasValue_optional", args=(field,), type=types.BOOL, span=node.span)


def bind(node: ast.MethodExpr, scope: Scope) -> ast.Core:
    """Check ``cel.bind(name, value, body)``."""
    if len(node.args) != 3:
        return _wrong_arity("cel.bind", "cel.bind(x, value, body)", node, scope)
    names = _names(node.args[:1], scope)
    value = scope.infer(node.args[1])
    if names is None:
        return silent(node.span)
    inner, (unique,) = scope.bind((names[0], value.type))
    body = inner.infer(node.args[2])
    if types.ERROR in (value.type, body.type):
        return silent(node.span)
    return ast.Let(name=unique, value=value, body=body, type=body.type, span=node.span)


def expand(node: ast.MethodExpr, scope: Scope) -> ast.Core:
    """Check a macro that is written as a method."""
    macro = scope.environment.macros[node.name]
    if not scope.environment.dynamic:
        _count(node, macro, scope)
    if macro.of_optional:
        return _optional(node, macro, scope)
    operand = scope.infer(node.target)
    if node.name == "fold":
        return _fold(node, macro, operand, scope)
    variables = macro.variables.get(len(node.args))
    if variables is None:
        return _wrong_arity(node.name, macro.title, node, scope)
    names = _names(node.args[:variables], scope)
    kinds = _element_types(operand, variables, node, scope)
    if names is None or kinds is None:
        return silent(node.span)
    inner, unique = scope.bind(*zip(names, kinds, strict=True), nesting=1)
    bodies = [inner.infer(arg) for arg in node.args[variables:]]
    if any(body.type == types.ERROR for body in bodies):
        return silent(node.span)
    return _finish(node, operand, unique, bodies, scope)


def _finish(
    node: ast.MethodExpr,
    operand: ast.Core,
    names: tuple[str, ...],
    bodies: list[ast.Core],
    scope: Scope,
) -> ast.Core:
    if node.name in ("by", "resources"):
        return _gathered(node, operand, names, bodies, scope)
    kind = "existsOne" if node.name == "exists_one" else node.name
    test: ast.Core | None = None
    body: ast.Core | None = None
    result: types.Type
    if kind in ("all", "exists", "existsOne", "filter"):
        test = bodies[0]
        result = types.BOOL
        if kind == "filter":
            result = types.list_of(_one_type(operand.type))
    else:
        body = bodies[-1]
        test = bodies[0] if len(bodies) == 2 else None
        result = types.list_of(body.type)
        if kind == "transformMap":
            key = operand.type.key if isinstance(operand.type, types.MapType) else types.INT
            result = types.map_of(key, body.type)
        elif kind in ("transformMapEntry", "sortBy"):
            result = body.type if kind == "transformMapEntry" else operand.type
    if test is not None and not scope.require(test, types.BOOL, f"the test of {node.name}()"):
        return silent(node.span)
    tree = ast.Macro(
        kind=("map" if len(names) == 1 else "transformList") if kind == "sum" else kind,
        operand=operand,
        names=names,
        test=test,
        body=body,
        type=result,
        span=node.span,
    )
    return _sum(tree, node, scope) if kind == "sum" else tree


def _fold(node: ast.MethodExpr, macro: MacroForms, operand: ast.Core, scope: Scope) -> ast.Core:
    """Check ``list.fold(x, acc, first, value)``: the accumulator has the type of ``first``."""
    if len(node.args) != 4:
        return _wrong_arity(node.name, macro.title, node, scope)
    names = _names(node.args[:2], scope)
    kinds = _element_types(operand, 1, node, scope)
    first = scope.infer(node.args[2])
    if names is None or kinds is None or first.type == types.ERROR:
        return silent(node.span)
    kind = first.type
    inner, unique = scope.bind((names[0], kinds[0]), (names[1], kind), nesting=1)
    body = inner.infer(node.args[3])
    free = isinstance(kind, types.QuantityType) and kind.dimension == "free"
    if free and isinstance(body.type, types.QuantityType) and body.type != kind:
        kind = body.type  # a literal takes the unit of what is added to it
        first = settle(first, kind.dimension)
        inner, unique = scope.bind((names[0], kinds[0]), (names[1], kind), nesting=1)
        body = inner.infer(node.args[3])
    if body.type == types.ERROR or not scope.require(body, kind, "the value of fold()"):
        return silent(node.span)
    return ast.Macro(
        kind="fold",
        operand=operand,
        names=unique,
        body=body,
        first=first,
        type=kind,
        span=node.span,
    )


_KEYS: Final = (types.STRING, types.INT, types.BOOL)
_AMOUNT: Final = types.quantity_of("free")


def _gathered(
    node: ast.MethodExpr,
    operand: ast.Core,
    names: tuple[str, ...],
    bodies: list[ast.Core],
    scope: Scope,
) -> ast.Core:
    """Return the call that makes a map or resources of what each element gives."""
    if node.name == "by" and not isinstance(operand.type, types.ListType):
        message = f"by() needs a list, found {operand.type}"
        return scope.wrong("PS206", operand.span, message)
    first = _KEYS if node.name == "by" else (types.STRING,)
    for body, kinds in zip(bodies, (first, (_AMOUNT,)), strict=False):
        if body.type not in kinds:
            message = f"{node.name}() needs {' or '.join(map(str, kinds))}, found {body.type}"
            hint = ""
            if isinstance(body.type, types.QuantityType):
                message = "resources() takes no amount of a resource, which has a unit already"
                hint = "take a field of an object, or quantity(text)"
            return scope.wrong("PS203", body.span, message, hint)
    listed = _one_type(operand.type)
    parts: list[ast.Core] = [
        ast.Macro(
            kind="map",
            operand=operand,
            names=names,
            body=body,
            type=types.list_of(body.type),
            span=node.span,
        )
        for body in bodies
    ]
    if node.name == "resources":
        overload, result = "resources_list_list", types.RESOURCES
    else:
        overload, result = "by_list_list", types.map_of(bodies[0].type, listed)
        parts.insert(0, operand)
    return ast.Call(overload=overload, args=tuple(parts), type=result, span=node.span)


def _sum(tree: ast.Macro, node: ast.MethodExpr, scope: Scope) -> ast.Core:
    choice = choose(scope.environment.methods["sum"], [tree.type])
    if choice is None:
        assert tree.body is not None
        message = f"sum() adds int, double, duration or quantity, not {tree.body.type}"
        return scope.wrong("PS201", tree.body.span, message)
    return ast.Call(overload=choice.overload.id, args=(tree,), type=choice.result, span=node.span)


def _optional(node: ast.MethodExpr, macro: MacroForms, scope: Scope) -> ast.Core:
    operand = scope.infer(node.target)
    if len(node.args) not in macro.variables:
        return _wrong_arity(node.name, macro.title, node, scope)
    names = _names(node.args[:1], scope)
    if names is None or operand.type == types.ERROR:
        return silent(node.span)
    if operand.type not in (types.UNKNOWN, types.DYN) and not isinstance(
        operand.type, types.OptionalType
    ):
        message = f"{node.name}() is a method of optionals, not of {operand.type}"
        cel, at = no_overload("hasValue", [operand.type], method=True), node.name_span.end
        hint = "an optional comes from `[?key]`"
        return scope.wrong("PS201", node.name_span, message, hint, cel=cel, at=at)
    inside = operand.type.element if isinstance(operand.type, types.OptionalType) else operand.type
    inner, unique = scope.bind((names[0], inside))
    body = inner.infer(node.args[1])
    if body.type == types.ERROR:
        return silent(node.span)
    result: types.Type = types.optional_of(body.type)
    if node.name == "optFlatMap":
        result = body.type
        if not isinstance(body.type, types.OptionalType) and body.type not in (
            types.UNKNOWN,
            types.DYN,
        ):
            message = f"optFlatMap()'s value must be an optional, found {body.type}"
            cel = no_overload("_?_:_", [types.BOOL, body.type, types.optional_of(types.DYN)])
            return scope.wrong(
                "PS203", body.span, message, "for a plain value write optMap()", cel=cel
            )
    return ast.Macro(
        kind=node.name, operand=operand, names=unique, body=body, type=result, span=node.span
    )


def _count(node: ast.MethodExpr, macro: MacroForms, scope: Scope) -> None:
    scope.unit.macros += 1
    hint = "move a part of it into `variables` or `functions`"
    if scope.unit.macros == MAX_MACROS + 1:
        scope.report("PS502", node.name_span, f"more than {MAX_MACROS} macros", hint)
    if not macro.of_optional and scope.nesting == MAX_MACRO_NESTING:
        message = f"macros are nested more than {MAX_MACRO_NESTING} deep"
        scope.report("PS502", node.name_span, message, hint)


def _wrong_arity(name: str, form: str, node: ast.MethodExpr, scope: Scope) -> ast.Core:
    message = f"{name}() does not take {len(node.args)} argument{'s' * (len(node.args) != 1)}"
    cel, at = undeclared(node.name), node.name_span.end
    return scope.wrong("PS107", node.name_span, message, f"write {form}", cel=cel, at=at)


def _names(nodes: Sequence[ast.Node], scope: Scope) -> tuple[str, ...] | None:
    """Return the names of the variables that a macro declares, or None after a PS108."""
    names = []
    for node in nodes:
        if not isinstance(node, ast.Ident):
            message, cel = "a macro's variable is a simple name", "argument must be a simple name"
            scope.report("PS108", node.span, message, cel=cel)
            return None
        if node.name in names:
            message = f"both variables are called `{node.name}`"
            cel = f"duplicate variable name: {node.name}"
            scope.report("PS108", node.span, message, cel=cel)
            return None
        if node.name in scope.locals or node.name in _outer(scope):
            message = f"`{node.name}` hides another variable of that name"
            scope.report("PS109", node.span, message, "give it a name of its own")
        names.append(node.name)
    return tuple(names)


def _outer(scope: Scope) -> set[str]:
    """Return the names of variables that do not belong to a macro."""
    own = {"params", "variables"} & scope.unit.section.visible
    return {*own, *scope.environment.variables} - {"key"}  # which one section alone sees


def _one_type(kind: types.Type) -> types.Type:
    match kind:
        case types.ListType():
            return kind.element
        case types.MapType():
            return kind.key
    return kind


def _element_types(
    operand: ast.Core, variables: int, node: ast.MethodExpr, scope: Scope
) -> tuple[types.Type, ...] | None:
    kind = operand.type
    if kind == types.ERROR:
        return None
    if kind in (types.UNKNOWN, types.DYN):
        return (kind,) * variables
    match kind:
        case types.ListType():
            return (kind.element,) if variables == 1 else (types.INT, kind.element)
        case types.MapType():
            return (kind.key,) if variables == 1 else (kind.key, kind.value)
    hint = ""
    if kind == types.RESOURCES:
        hint = "iterate over its names: `.names()`"
    elif isinstance(kind, types.OptionalType):
        hint = "for an optional write `.optMap(x, ...)`, or `.orValue([])` first"
    message = f"{node.name}() needs a list or map, found {kind}"
    cel = f"expression of type '{types.cel_name(kind)}' cannot be range of a comprehension"
    cel += " (must be list, map, or dynamic)"
    scope.report("PS206", operand.span, message, hint, cel=cel)
    return None
