"""The mistakes of selectors, each in the words of the language and in those of kube-apiserver.

Upstream reports cel-go's text; it is what admission answers and what events quote. An author of a
selector reads a `Problem`, as for every other expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.language.cel.environment import selector_environment
from policy_sched.language.cel.types import ANY, BYTES, upstream_name, upstream_names
from policy_sched.language.diagnostics import Problem, did_you_mean, nearest
from policy_sched.language.stdlib import Overload, closest, policy_environment
from policy_sched.language.syntax import Binary, CallExpr, Ident, MethodExpr, Select, Span
from policy_sched.language.values import (
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    ListType,
    OptionalType,
    Type,
)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem, and cel-go's message with its place; without one upstream accepts the text."""

    problem: Problem
    at: int
    upstream: str


def mistake(
    code: str, span: Span, message: str, upstream: str, *, at: int | None = None, hint: str = ""
) -> Mistake:
    """Return a mistake of the text at ``span``, which cel-go places at ``at``."""
    problem = Problem(span.start, span.end, code, message, hint)
    return Mistake(problem, span.start if at is None else at, upstream)


def undeclared(name: str) -> str:
    """Return cel-go's message of a name that means nothing."""
    return f"undeclared reference to '{name}' (in container '')"


def unknown_variable(node: Ident, scope: Collection[str]) -> Mistake:
    """Return the mistake of a name that no variable has."""
    environment = selector_environment()
    message, hint = f"no variable is called `{node.name}`", ""
    if node.name in environment.functions:
        hint = f"`{node.name}` is a function: call it"
    elif node.name in environment.habits:
        hint = f"write `{environment.habits[node.name]}`"
    elif node.name in policy_environment().variables:
        hint = "policies have it; a selector sees only `device`"
    else:
        message += did_you_mean(node.name, scope)
        hint = "" if "did you mean" in message else f"visible here: {', '.join(sorted(scope))}"
    return mistake("PS101", node.span, message, undeclared(node.name), hint=hint)


def no_fields(node: Select, kind: Type, at: int) -> Mistake:
    """Return the mistake of a field of what has none."""
    hint = _method_hint(node.name)
    if not hint and isinstance(kind, ListType):
        hint = f"for its elements write `.map(x, x.{node.name})` or `.exists(x, ...)`"
    upstream = f"type '{upstream_name(kind)}' does not support field selection"
    return mistake("PS103", node.name_span, f"{kind} has no fields", upstream, at=at, hint=hint)


def unknown_field(node: Select, kind: Type, fields: Mapping[str, Type], at: int) -> Mistake:
    """Return the mistake of a field that a record lacks."""
    close = did_you_mean(node.name, fields)
    hint = "" if close else _method_hint(node.name) or f"its fields: {', '.join(fields)}"
    message = f"{kind} has no field '{node.name}'{close}"
    upstream = f"undefined field '{node.name}'"
    return mistake("PS102", node.name_span, message, upstream, at=at, hint=hint)


def _method_hint(name: str) -> str:
    known = name in selector_environment().methods
    return f"`{name}` is a method: write `.{name}(...)`" if known else ""


def no_overload_text(name: str, kinds: Sequence[Type], *, method: bool = False) -> str:
    """Return cel-go's message of a call that no overload takes."""
    applied = upstream_names(kinds)
    if method:
        applied = f"{upstream_name(kinds[0])}.{upstream_names(kinds[1:])}"
    return f"found no matching overload for '{name}' applied to '{applied}'"


def no_index(span: Span, operand: Type, inner: Type, key: Type, *, optional: bool) -> Mistake:
    """Return the mistake of an index that does not suit; ``span`` is the operand's."""
    if hasattr(inner, "element") or hasattr(inner, "value"):
        wanted = getattr(inner, "key", INT)
        message = f"{inner} is indexed by {wanted}, found {key}"
    else:
        message = f"{inner} has no elements to index"
    upstream = no_overload_text("_[?_]" if optional else "_[_]", [operand, key])
    return mistake("PS201", span, message, upstream, at=span.end)


def no_operator(node: Binary, kinds: Sequence[Type]) -> Mistake:
    """Return the mistake of an operator between types that it does not take."""
    message = f"`{node.op}` has no overload for {kinds[0]} and {kinds[1]}"
    upstream = no_overload_text(f"_{node.op}_", kinds)
    hint = _operator_hint(node.op, *kinds)
    return mistake("PS201", node.op_span, message, upstream, hint=hint)


_METHODS: Final = {
    ">": "write `a.isGreaterThan(b)`",
    "<": "write `a.isLessThan(b)`",
    ">=": "write `a.compareTo(b) >= 0`",
    "<=": "write `a.compareTo(b) <= 0`",
    "+": "write `a.add(b)`",
    "-": "write `a.sub(b)`",
}
_MADE: Final = {QUANTITY: 'quantity("...")', SEMVER: 'semver("...")'}


def _operator_hint(op: str, left: Type, right: Type) -> str:
    for kind, made in _MADE.items():
        if kind not in (left, right):
            continue
        hint = _METHODS.get(op, "") if kind == QUANTITY or op not in "+-" else ""
        if left == right:
            return hint
        if ANY in (left, right):
            return hint
        return f"{hint}, the other value as {made}" if hint else f"write the other value as {made}"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, OptionalType) and not isinstance(other, OptionalType):
            return "give the optional a value with .orValue(...)"
    if STRING in (left, right) and op == "in":
        return "for a part of a text write .contains(...)"
    if STRING in (left, right) and BYTES not in (left, right):
        return "convert one side with string(...)"
    return ""


def no_call(
    node: CallExpr | MethodExpr,
    name: str,
    kinds: Sequence[Type],
    candidates: Sequence[Overload],
    *,
    method: bool,
) -> Mistake:
    """Return the mistake of a call with arguments that no overload takes."""
    shown = ", ".join(map(str, kinds[1:] if method else kinds))
    message = f"{kinds[0]} has no method `{name}` for ({shown})" if method else ""
    message = message or f"`{name}` has no overload for ({shown})"
    upstream = no_overload_text(name, kinds, method=method)
    hint = "; ".join(closest(candidates, kinds))
    if method and not candidates:
        hint = f"write `{name}(x)`"
    span = node.name_span if method else node.span
    return mistake("PS201", span, message, upstream, at=node.name_span.end, hint=hint)


def unknown_function(span: Span, name: str, kind: Type | None, last: str | None = None) -> Mistake:
    """Return the mistake of a function, or of a method of ``kind``, that does not exist."""
    environment = selector_environment()
    known: Iterable[str] = {*environment.functions, "has"} if kind is None else environment.methods
    if "." in name:
        known = [full for full in environment.functions if full.partition(".")[0] in name]
    what = "function" if kind is None else "method"
    message = f"no {what} is called `{name}`"
    if kind not in (None, ANY):
        message = f"{kind} has no method `{name}`"
    hint = ""
    if kind is None and name in environment.methods:
        hint = f"write `x.{name}(...)`"
    elif any(one.name == name for one in policy_environment().overloads):
        hint = "policies have it; Kubernetes' CEL over devices does not"
    else:
        close = nearest(name, known)
        message += f"; did you mean '{close}'?" if close else ""
    return mistake("PS101", span, message, undeclared(last or name), at=span.end, hint=hint)


def stored_only(node: MethodExpr) -> Mistake:
    """Return the mistake of a function that kube-apiserver refuses in new objects."""
    message = f"{node.name}() is refused by kube-apiserver 1.36 in new objects"
    hint = "write `x in list`, or `==`"
    at = node.name_span.end
    return mistake("PS014", node.name_span, message, undeclared(node.name), at=at, hint=hint)


def expected(
    code: str, span: Span, what: str, wanted: Type, found: Type, where: str = ""
) -> Mistake:
    """Return the mistake of a value of another type than ``wanted``."""
    message = f"{what}: expected {wanted}, found {found}"
    upstream = f"expected type '{upstream_name(wanted)}' but found '{upstream_name(found)}'{where}"
    return mistake(code, span, message, upstream)


def result_hint(kind: Type) -> str:
    """Suggest how a value becomes a bool."""
    if isinstance(kind, OptionalType):
        return "give it a value with .orValue(...), or test .hasValue()"
    if isinstance(kind, ListType):
        return "write .exists(x, ...), .all(x, ...) or .size() > 0"
    if kind in _MADE:
        return f"compare it, such as .isGreaterThan({_MADE[kind]})"
    return "compare it, such as `> 0`" if kind == INT else "compare it, such as `== ...`"
