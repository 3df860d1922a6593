"""Checks calls: functions, methods, a policy's own functions, and constant arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import re2

from policy_sched.language.check import macros
from policy_sched.language.check.scope import Definition, Scope, silent, unsupported
from policy_sched.language.diagnostics import MAX_PATTERN_BYTES, did_you_mean, nearest
from policy_sched.language.stdlib import NAMESPACES, Overload, choose, closest, rule_macros, settle
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
from policy_sched.model import parse as parse_quantity
from policy_sched.model import parse_selector

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
    if unsupported(node.name):
        return _outside(node.name, node.name_span, scope)
    for arg in node.args:
        scope.infer(arg)
    message = f"no function is called `{node.name}`"
    if node.name in scope.environment.methods or node.name in rule_macros():
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
    if node.name not in methods and unsupported(node.name):
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
    return scope.wrong("PS014", span, f"{unsupported(name)} is CEL, but not part of rules")


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
    if name not in functions and unsupported(node.name):
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


_DURATION_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_DURATION_PART.pattern})++)")
_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.IGNORECASE
)
_NUMBER: Final = r"(?:0|[1-9]\d*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_DURATION_SECONDS: Final = 315_576_000_000  # ten thousand years, as CEL's durations


def bad_duration(text: str) -> str | None:
    """Return what is wrong with a Go duration such as "1h30m", or None."""
    if not _DURATION.fullmatch(text):
        return 'is not a duration such as "90s", "5m" or "1h30m"'
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(text))
    return "is out of range" if seconds > _MAX_DURATION_SECONDS else None


def bad_timestamp(text: str) -> str | None:
    """Return what is wrong with an RFC 3339 time, or None; years run from 1 to 9999 in UTC."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return 'is not a time such as "2024-05-01T12:00:00Z"'
    zone = "+00:00" if found[3] in "zZ" else found[3]
    try:
        datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return f"is not a time: {error}"
    return None


def bad_quantity(text: str) -> str | None:
    """Return what is wrong with a Kubernetes quantity, or None."""
    try:
        parse_quantity(text)
    except ValueError:
        return 'is not a quantity such as "500m", "2" or "10Gi"'
    return None


def bad_semver(text: str) -> str | None:
    """Return what is wrong with a semantic version, or None."""
    return None if _SEMVER.fullmatch(text) else 'is not a version such as "1.36.0"'


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


#: For an overload: which argument is checked where it is a constant, and how.
CHECKS: Final[dict[str, tuple[int, Callable[[str], str | None]]]] = {
    "duration_string": (0, bad_duration),
    "timestamp_string": (0, bad_timestamp),
    "quantity_string": (0, bad_quantity),
    "semver_string": (0, bad_semver),
    "selector_string": (0, bad_selector),
    "matches_string_string": (1, bad_pattern),
    "find_string_string": (1, bad_pattern),
}
