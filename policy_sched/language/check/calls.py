"""Checks calls: functions, methods, a policy's own functions, and constant arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import re2

from policy_sched.errors import nearest
from policy_sched.language import stdlib
from policy_sched.language.check import macros
from policy_sched.language.check.scope import (
    Definition,
    Scope,
    habit_hint,
    no_overload,
    silent,
    undeclared,
)
from policy_sched.language.diagnostics import MAX_PATTERN_BYTES, did_you_mean
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import Fault, types
from policy_sched.model import parse as parse_quantity, parse_selector

#: Characters of a constant text that a message shows.
_SHOWN: Final = 80
#: Functions whose constant arguments cel-go, too, reads when it compiles.
_READ_UPSTREAM: Final = frozenset({"duration", "timestamp", "matches"})


#: Methods and functions that compare elements, which objects of inputs cannot be.
_COMPARING: Final = frozenset(
    {
        *("distinct", "includes", "indexOf", "lastIndexOf"),
        *("sets.contains", "sets.equivalent", "sets.intersects"),
    }
)


def not_compared(tree: ast.Core, scope: Scope) -> ast.Core:
    """Report a comparison of objects of inputs: only the fields that rules read are kept."""
    message = f"{tree.type} is not compared as a whole"
    return scope.wrong("PS201", tree.span, message, "compare its fields, such as the names")


def call(node: ast.CallExpr, scope: Scope) -> ast.Core:
    """Check ``name(args)``."""
    environment, declared = scope.environment, scope.unit.definitions.declared_functions
    if node.name == "has":
        return macros.has(node, scope)
    if node.name in declared:
        return _own_function(node, scope)
    if node.name in environment.functions:
        args = [scope.infer(arg) for arg in node.args]
        return finish(environment.functions[node.name], node.name, args, node.span, scope)
    if node.name in environment.unsupported:
        return scope.unsupported(node.name, node.name_span)
    kinds = [scope.infer(arg).type for arg in node.args]
    message, at = f"no function is called `{node.name}`", node.name_span.end
    hint, cel = environment.elsewhere.get(node.name, ""), undeclared(node.name)
    if node.name in environment.methods or node.name in environment.macros:
        hint = f"write `x.{node.name}(...)`"
        if node.name in environment.methods and types.ERROR not in kinds:
            cel = no_overload(node.name, kinds)
    elif not hint and not (hint := habit_hint(node.name, environment)):
        message += _closest_name(node.name, {*environment.functions, *declared, "has"})
    return scope.wrong("PS101", node.name_span, message, hint, cel=cel, at=at)


def _closest_name(name: str, names: set[str]) -> str:
    """Suggest a name, also one of a namespace (`round` for `math.round`)."""
    inside = sorted(full for full in names if full.partition(".")[2] == name)
    return f"; did you mean '{inside[0]}'?" if inside else did_you_mean(name, names)


def method(node: ast.MethodExpr, scope: Scope) -> ast.Core:
    """Check ``target.name(args)``: a macro, a function with a dotted name, or a method."""
    target, environment = node.target, scope.environment
    if isinstance(target, ast.Ident) and target.name not in scope.locals:
        dotted = f"{target.name}.{node.name}"
        if dotted == "cel.bind":
            return macros.bind(node, scope)
        if dotted in environment.functions or target.name in environment.namespaces:
            return _dotted(dotted, node, scope)
    if node.name == "all" and not node.args:
        return _all_of_an_input(node, scope)
    if macros.is_macro(node, scope):
        return macros.expand(node, scope)
    if node.name not in environment.methods and node.name in environment.unsupported:
        if environment.dynamic:
            scope.infer(target)
        return scope.unsupported(node.name, node.name_span, node.name_span.end)
    receiver = scope.infer(target)
    if node.name in environment.methods:
        args = [receiver, *_arguments(node, scope)]
        overloads = environment.methods[node.name]
        return finish(overloads, node.name, args, node.span, scope, node.name_span)
    # A macro of another language has a variable of its own, which is no mistake by itself.
    macro = len(node.args) > 1 and habit_hint(node.name, environment, args=len(node.args)) != ""
    args = [receiver, *(() if macro else _arguments(node, scope))]
    return _no_method(receiver, args, node, scope)


def _all_of_an_input(node: ast.MethodExpr, scope: Scope) -> ast.Core:
    """Check ``inputs.NAME.all()``."""
    receiver = scope.infer(node.target)
    kind = receiver.type
    if kind == types.ERROR:  # it is told already
        return receiver
    if not isinstance(kind, types.InputType) or kind.annotation:
        return macros.expand(node, scope)
    if not kind.most:
        hint = "state in the input how many there may be, such as `most: 100`"
        message = f"{kind}.all() reads all objects, and nothing says how many there may be"
        return scope.wrong("PS806", node.name_span, message, hint)
    result = types.list_of(kind.record)
    return ast.Field(operand=receiver, name="all", type=result, span=node.span)


def _no_method(
    receiver: ast.Core, args: Sequence[ast.Core], node: ast.MethodExpr, scope: Scope
) -> ast.Core:
    """Report a method that no type has."""
    environment, name, at = scope.environment, node.name, node.name_span.end
    if receiver.type == types.ERROR:
        scope.unit.refusals.append((at, undeclared(name)))
        return silent(node.span)
    message = f"{receiver.type} has no method `{name}`"
    if receiver.type == types.DYN:
        message = f"no method is called `{name}`"
    hint, cel = environment.elsewhere.get(name, ""), undeclared(name)
    if name in environment.functions or name in scope.unit.definitions.declared_functions:
        hint = f"write `{name}(x)`"
        cel = no_overload(name, [arg.type for arg in args], method=True)
    elif not hint and not (hint := habit_hint(name, environment, args=len(node.args))):
        names = methods_of(receiver.type, environment.methods)
        message += did_you_mean(name, (*names, *environment.macros))
    return scope.wrong("PS101", node.name_span, message, hint, cel=cel, at=at)


def methods_of(kind: types.Type, methods: Mapping[str, Sequence[stdlib.Overload]]) -> list[str]:
    """Return the names of the methods that a value of type ``kind`` has."""
    return [
        n for n, group in methods.items() if any(types.fit(o.params[0], kind, {}) for o in group)
    ]


def _arguments(node: ast.MethodExpr, scope: Scope) -> list[ast.Core]:
    """Check the arguments; ``format``'s list alone may mix types."""
    if node.name != "format" or len(node.args) != 1 or not isinstance(node.args[0], ast.ListExpr):
        return [scope.infer(arg) for arg in node.args]
    written = node.args[0]
    items = tuple(scope.infer(element) for element in written.elements)
    kind = (
        types.ERROR
        if any(item.type == types.ERROR for item in items)
        else types.list_of(types.UNKNOWN)
    )
    return [ast.ListLit(elements=items, optional=written.optional, type=kind, span=written.span)]


def _dotted(name: str, node: ast.MethodExpr, scope: Scope) -> ast.Core:
    environment = scope.environment
    if name not in environment.functions and node.name in environment.unsupported:
        return scope.unsupported(node.name, node.name_span)
    args = [scope.infer(arg) for arg in node.args]
    if name in environment.functions:
        return finish(environment.functions[name], name, args, node.span, scope)
    namespace = name.partition(".")[0]
    names = [full for full in environment.functions if full.startswith(f"{namespace}.")]
    hint = environment.elsewhere.get(name, "")
    close = nearest(name, names)
    message = f"no function is called `{name}`" + (f"; did you mean '{close}'?" if close else "")
    cel, at = undeclared(node.name), node.name_span.end
    return scope.wrong("PS101", node.name_span, message, hint, cel=cel, at=at)


def _own_function(node: ast.CallExpr, scope: Scope) -> ast.Core:
    unit = scope.unit
    args = [scope.infer(arg) for arg in node.args]
    declared_at = unit.definitions.declared_functions[node.name]
    function = unit.definitions.functions.get(node.name)
    limit = unit.before_function
    if function is None or (limit is not None and declared_at >= limit):
        if limit == declared_at or (limit is None and function is None):
            message = f"function `{node.name}` calls itself"
        else:
            message = f"function `{node.name}` is used before its definition"
        return scope.wrong("PS110", node.name_span, message, "functions may call earlier ones only")
    if not _in_order(function, node.span, scope):
        return silent(node.span)
    if not scope.read(function.reads, node.name_span, f"function `{node.name}` reads"):
        return silent(node.span)
    if len(args) != len(function.params):
        signature = f"{node.name}({', '.join(map(str, function.params))})"
        message = f"`{node.name}` takes {len(function.params)} arguments, found {len(args)}"
        return scope.wrong("PS201", node.span, message, signature)
    fits = [
        scope.require(arg, param, f"argument {i} of `{node.name}`")
        for i, (arg, param) in enumerate(zip(args, function.params, strict=True), 1)
    ]
    if not all(fits) or function.type == types.ERROR:
        return silent(node.span)
    return ast.UserCall(name=node.name, args=tuple(args), type=function.type, span=node.span)


def _in_order(function: Definition, span: Span, scope: Scope) -> bool:
    """Whether a variable's definition calls a function that reads only earlier variables."""
    limit, declared = scope.unit.before_variable, scope.unit.definitions.declared_variables
    for name in sorted(function.reads):
        root, _, variable = name.partition(".")
        if limit is not None and root == "variables" and declared.get(variable, -1) >= limit:
            message = f"function `{function.name}` reads `{name}`, which is defined later"
            scope.report("PS110", span, message, "variables are read in order")
            return False
    return True


def finish(
    candidates: Sequence[stdlib.Overload],
    name: str,
    args: list[ast.Core],
    span: Span,
    scope: Scope,
    name_span: Span | None = None,
) -> ast.Core:
    """Settle the overload of a call whose arguments are checked."""
    if any(arg.type == types.ERROR for arg in args):
        return silent(span)
    kinds = [arg.type for arg in args]
    if name in _COMPARING:
        objects = [arg for arg in args if types.has_objects(arg.type)]
        if objects:
            return not_compared(objects[0], scope)
    if name == "optional.ofNonZeroValue":
        scope.read_whole(kinds[0])
    choice = stdlib.choose(candidates, kinds, dynamic=scope.environment.dynamic)
    if choice is None:
        return _no_overload(candidates, name, kinds, span, scope, name_span)
    if choice.clash:
        return scope.wrong("PS208", span, types.clash_message(choice.clash), types.CLASH_HINT)
    overload = choice.overload
    reads = frozenset(overload.reads)
    if reads and not scope.read(reads, span, f"{name}() reads"):
        return silent(span)
    if not _constants_are_good(overload, args, scope) and not scope.environment.dynamic:
        return silent(span)
    settled = tuple(stdlib.settle(arg, choice.dimension) for arg in args)
    return ast.Call(overload=overload.id, args=settled, type=choice.result, span=span)


def _no_overload(
    candidates: Sequence[stdlib.Overload],
    name: str,
    kinds: list[types.Type],
    span: Span,
    scope: Scope,
    name_span: Span | None,
) -> ast.Core:
    """Report a call that no overload takes; ``name_span`` is that of a method's name."""
    message = f"`{name}` has no overload for ({', '.join(map(str, kinds))})"
    at = span.start + len(name)
    if name_span is not None:
        message = f"{kinds[0]} has no method `{name}` for ({', '.join(map(str, kinds[1:]))})"
        at = name_span.end
    hint = "; ".join(stdlib.closest(candidates, kinds))
    cel = no_overload(name, kinds, method=name_span is not None)
    return scope.wrong("PS201", name_span or span, message, hint, cel=cel, at=at)


def _constants_are_good(overload: stdlib.Overload, args: list[ast.Core], scope: Scope) -> bool:
    """Check constant texts that the function reads; a selector must be one."""
    if overload.id not in CHECKS:
        return True
    index, check = CHECKS[overload.id]
    arg = args[index]
    if not isinstance(arg, ast.Const) or not isinstance(arg.value, str):
        if overload.id in _CONSTANT and arg.type == types.STRING:
            scope.report("PS012", arg.span, f"{_CONSTANT[overload.id]} must be a constant text")
            return False
        return True
    bad = check(arg.value)
    if bad is None:
        return True
    shown = arg.value if len(arg.value) <= _SHOWN else f"{arg.value[:_SHOWN]}..."
    cel = ""
    if overload.name in _READ_UPSTREAM and len(arg.value.encode()) <= MAX_PATTERN_BYTES:
        cel = f"invalid {overload.name} argument"
    scope.report("PS012", arg.span, f'"{shown}" {bad}', cel=cel)
    return False


def quantities_differ(kinds: Sequence[types.Type]) -> tuple[str, ...]:
    """Return the two dimensions that meet among ``kinds`` and must not, or nothing."""
    fixed, _ = types.dimensions(kinds)
    return tuple(sorted(fixed)) if len(fixed) > 1 else ()


def _reader(read: Callable[[str], object], what: str) -> Callable[[str], str | None]:
    """Return what says why a constant text cannot be read, or None if it can."""

    def bad(text: str) -> str | None:
        try:
            read(text)
        except (Fault, ValueError):
            return f"is not {what}"
        return None

    return bad


bad_duration: Final = _reader(
    stdlib.BUILTINS["duration_string"].function, 'a duration such as "90s", "5m" or "1h30m"'
)
bad_timestamp: Final = _reader(stdlib.timestamp_of_text, 'a time such as "2024-05-01T12:00:00Z"')
bad_quantity: Final = _reader(parse_quantity, 'a quantity such as "500m", "2" or "10Gi"')
bad_semver: Final = _reader(stdlib.version, 'a version such as "1.36.0"')


def bad_selector(text: str) -> str | None:
    """Return what is wrong with a label selector's text, or None."""
    try:
        parse_selector(text)
    except ValueError as error:
        return f'is not a label selector such as "tier in (web, api), !legacy": {error}'
    return None


@functools.lru_cache(maxsize=1024)
def bad_pattern(text: str) -> str | None:
    """Return what is wrong with an RE2 pattern, or None."""
    if len(text.encode()) > MAX_PATTERN_BYTES:
        return f"is a pattern of more than {MAX_PATTERN_BYTES} bytes"
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"is not an RE2 pattern: {words}"
    return None


def bad_missing(text: str) -> str | None:
    """Return what is wrong with what fitsIn takes for resources that are not named, or None."""
    return None if text == stdlib.UNLIMITED else f'is not "{stdlib.UNLIMITED}"'


_CONSTANT: Final = {
    "selector_string": "a selector",
    "fitsIn_resources_resources_string": "what fitsIn takes for resources that are not named",
}
"""Overloads whose text that is checked has to be a constant, and what it is."""

#: For an overload: which argument is checked where it is a constant, and how.
CHECKS: Final[dict[str, tuple[int, Callable[[str], str | None]]]] = {
    "duration_string": (0, bad_duration),
    "timestamp_string": (0, bad_timestamp),
    "quantity_string": (0, bad_quantity),
    "semver_string": (0, bad_semver),
    "selector_string": (0, bad_selector),
    "fitsIn_resources_resources_string": (2, bad_missing),
    "matches_string_string": (1, bad_pattern),
    "find_string_string": (1, bad_pattern),
}
