"""Checks of calls: functions, methods, a policy's own functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from policy_sched.language.check import macros
from policy_sched.language.check.constants import CHECKS
from policy_sched.language.check.scope import Definition, Scope, silent
from policy_sched.language.diagnostics import OUTSIDE, did_you_mean, nearest
from policy_sched.language.stdlib import NAMESPACES, Overload, choose, closest, settle
from policy_sched.language.syntax import (
    Call,
    CallExpr,
    Const,
    Core,
    Ident,
    ListExpr,
    ListLit,
    MethodExpr,
    Span,
    UserCall,
)
from policy_sched.language.values import (
    CLASH_HINT,
    ERROR,
    STRING,
    UNKNOWN,
    Type,
    clash_message,
    dimensions,
    fit,
    list_of,
)

#: Characters of a constant text that a message shows.
_SHOWN: Final = 80


def call(node: CallExpr, scope: Scope) -> Core:
    """Check ``name(args)``."""
    functions = scope.environment.functions
    if node.name == "has":
        return macros.has(node, scope)
    if node.name in scope.unit.definitions.declared_functions:
        return _own_function(node, scope)
    if node.name in functions:
        args = [scope.infer(arg) for arg in node.args]
        return finish(functions[node.name], node.name, args, node.span, scope)
    if node.name in OUTSIDE:
        return _outside(node.name, node.name_span, scope)
    for arg in node.args:
        scope.infer(arg)
    message = f"no function is called `{node.name}`"
    if node.name in scope.environment.methods or node.name in macros.METHOD_MACROS:
        return scope.wrong("PS101", node.name_span, message, f"write `x.{node.name}(...)`")
    names = {*functions, *scope.unit.definitions.declared_functions, "has"}
    return scope.wrong("PS101", node.name_span, message + _closest_name(node.name, names))


def _closest_name(name: str, names: set[str]) -> str:
    """Suggest a name, also one of a namespace (`round` for `math.round`)."""
    inside = sorted(full for full in names if full.partition(".")[2] == name)
    return f"; did you mean '{inside[0]}'?" if inside else did_you_mean(name, names)


def method(node: MethodExpr, scope: Scope) -> Core:
    """Check ``target.name(args)``: a macro, a function with a dotted name, or a method."""
    target, methods = node.target, scope.environment.methods
    if isinstance(target, Ident) and target.name not in scope.locals:
        if target.name == "cel" and node.name == "bind":
            return macros.bind(node, scope)
        if target.name in NAMESPACES:
            return _dotted(target.name, node, scope)
    if macros.is_macro(node):
        return macros.expand(node, scope)
    if node.name in OUTSIDE and node.name not in methods:
        return _outside(node.name, node.name_span, scope)
    receiver = scope.infer(target)
    args = [receiver, *_arguments(node, scope)]
    if node.name in methods:
        return finish(methods[node.name], node.name, args, node.span, scope, node.name_span)
    if receiver.type == ERROR:
        return silent(node.span)
    message = f"{receiver.type} has no method `{node.name}`"
    if (
        node.name in scope.environment.functions
        or node.name in scope.unit.definitions.declared_functions
    ):
        return scope.wrong("PS101", node.name_span, message, f"write `{node.name}(x)`")
    message += did_you_mean(node.name, methods_of(receiver.type, methods))
    return scope.wrong("PS101", node.name_span, message)


def _outside(name: str, span: Span, scope: Scope) -> Core:
    return scope.wrong("PS014", span, f"{OUTSIDE[name]} is CEL, but not part of rules")


def methods_of(kind: Type, methods: Mapping[str, Sequence[Overload]]) -> list[str]:
    """Return the names of the methods that a value of type ``kind`` has."""
    return [n for n, group in methods.items() if any(fit(o.params[0], kind, {}) for o in group)]


def _arguments(node: MethodExpr, scope: Scope) -> list[Core]:
    """Check the arguments; ``format``'s list alone may mix types."""
    if node.name != "format" or len(node.args) != 1 or not isinstance(node.args[0], ListExpr):
        return [scope.infer(arg) for arg in node.args]
    written = node.args[0]
    items = tuple(scope.infer(element) for element in written.elements)
    kind = ERROR if any(item.type == ERROR for item in items) else list_of(UNKNOWN)
    return [ListLit(elements=items, optional=written.optional, type=kind, span=written.span)]


def _dotted(namespace: str, node: MethodExpr, scope: Scope) -> Core:
    name, functions = f"{namespace}.{node.name}", scope.environment.functions
    if name not in functions and node.name in OUTSIDE:
        return _outside(node.name, node.name_span, scope)
    args = [scope.infer(arg) for arg in node.args]
    if name in functions:
        return finish(functions[name], name, args, node.span, scope)
    names = [full for full in functions if full.startswith(f"{namespace}.")]
    close = nearest(name, names)
    message = f"no function is called `{name}`" + (f"; did you mean '{close}'?" if close else "")
    return scope.wrong("PS101", node.name_span, message)


def _own_function(node: CallExpr, scope: Scope) -> Core:
    unit = scope.unit
    args = [scope.infer(arg) for arg in node.args]
    place = unit.definitions.declared_functions[node.name]
    found = unit.definitions.functions.get(node.name)
    limit = unit.before_function
    if found is None or (limit is not None and place >= limit):
        if limit == place or (limit is None and found is None):
            message = f"function `{node.name}` calls itself"
        else:
            message = f"function `{node.name}` is used before its definition"
        return scope.wrong("PS110", node.name_span, message, "functions may call earlier ones only")
    if not _in_order(found, node.span, scope):
        return silent(node.span)
    if not scope.read(found.reads, node.name_span, f"function `{node.name}` reads"):
        return silent(node.span)
    if len(args) != len(found.params):
        signature = f"{node.name}({', '.join(map(str, found.params))})"
        message = f"`{node.name}` takes {len(found.params)} arguments, found {len(args)}"
        return scope.wrong("PS201", node.span, message, signature)
    fits = [
        scope.require(arg, param, f"argument {i} of `{node.name}`")
        for i, (arg, param) in enumerate(zip(args, found.params, strict=True), 1)
    ]
    if not all(fits) or found.type == ERROR:
        return silent(node.span)
    return UserCall(name=node.name, args=tuple(args), type=found.type, span=node.span)


def _in_order(found: Definition, span: Span, scope: Scope) -> bool:
    """Whether a variable's definition calls a function that reads only earlier variables."""
    limit, declared = scope.unit.before_variable, scope.unit.definitions.declared_variables
    for name in sorted(found.reads):
        root, _, variable = name.partition(".")
        if limit is not None and root == "variables" and declared.get(variable, -1) >= limit:
            message = f"function `{found.name}` reads `{name}`, which is defined later"
            scope.report("PS110", span, message, "variables are read in order")
            return False
    return True


def finish(
    candidates: Sequence[Overload],
    name: str,
    args: list[Core],
    span: Span,
    scope: Scope,
    name_span: Span | None = None,
) -> Core:
    """Settle the overload of a call whose arguments are checked."""
    if any(arg.type == ERROR for arg in args):
        return silent(span)
    kinds = [arg.type for arg in args]
    choice = choose(candidates, kinds)
    if choice is None:
        as_method = name_span is not None
        message = _no_overload(name, kinds, as_method=as_method)
        return scope.wrong(
            "PS201", name_span or span, message, "; ".join(closest(candidates, kinds))
        )
    if choice.clash:
        return scope.wrong("PS208", span, clash_message(choice.clash), CLASH_HINT)
    overload = choice.overload
    reads = frozenset(overload.reads)
    if reads and not scope.read(reads, span, f"{name}() reads"):
        return silent(span)
    if not _constants_are_good(overload.id, args, scope):
        return silent(span)
    settled = tuple(settle(arg, choice.dimension) for arg in args)
    return Call(overload=overload.id, args=settled, type=choice.result, span=span)


def _no_overload(name: str, kinds: list[Type], *, as_method: bool) -> str:
    if as_method:
        return f"{kinds[0]} has no method `{name}` for ({', '.join(map(str, kinds[1:]))})"
    return f"`{name}` has no overload for ({', '.join(map(str, kinds))})"


def _constants_are_good(overload: str, args: list[Core], scope: Scope) -> bool:
    """Check constant texts that the function reads; a selector must be one."""
    if overload not in CHECKS:
        return True
    place, check = CHECKS[overload]
    arg = args[place]
    if not isinstance(arg, Const) or not isinstance(arg.value, str):
        if overload == "selector_string" and arg.type == STRING:
            scope.report("PS012", arg.span, "a selector must be a constant text")
            return False
        return True
    bad = check(arg.value)
    if bad is None:
        return True
    shown = arg.value if len(arg.value) <= _SHOWN else f"{arg.value[:_SHOWN]}..."
    scope.report("PS012", arg.span, f'"{shown}" {bad}')
    return False


def quantities_differ(kinds: Sequence[Type]) -> tuple[str, ...]:
    """Return the two dimensions that meet among ``kinds`` and must not, or nothing."""
    fixed, _ = dimensions(kinds)
    return tuple(sorted(fixed)) if len(fixed) > 1 else ()
