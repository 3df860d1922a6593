"""Lints of a policy: what is well formed and still not what its author can have meant.

Theory of operation. Each lint looks at the typed trees of a checked policy, where names and
overloads are settled; constant conditions and failures come from the compiler, which knows the
ranges of columns. A value that depends on a parameter is left alone: another value changes it.
This module has unused names (PS404), suffixes (PS406), time and pod identity (PS420, PS421).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy_sched.errors import Diagnostic
from policy_sched.language.check import Checked, CheckedPolicy, diagnostic
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.lint.conditions import conditions, filter_order, possible_errors
from policy_sched.language.lint.visitor import VARIABLES, Finding, Trees, walk
from policy_sched.language.syntax import Call, Const, Var
from policy_sched.language.values import QuantityType

SUFFIX: Final = "PS406"
_BINARY: Final = re.compile(r"[KMGTPE]i$")


def suffixes(checked: Checked) -> Iterator[Finding]:
    """Yield cpu with a suffix of bytes, and bytes with a suffix of cpu."""
    for part in walk(checked.core):
        match part:
            case Call(
                overload="quantity_string",
                args=(Const(value=str() as text, span=span),),
                type=QuantityType(dimension=dimension),
            ):
                message = _unsuited(text, dimension)
                if message:
                    problem = Problem(span.start, span.end, SUFFIX, message, _way_out(text))
                    yield Finding(problem, checked.text)


def _unsuited(text: str, dimension: str) -> str:
    if dimension == "cpu" and _BINARY.search(text):
        return f"{text} is an amount of bytes, and it meets cpu"
    if dimension == "bytes" and text.endswith("m"):
        return f"{text} is {text[:-1]} thousandths of a byte, and it meets an amount of bytes"
    return ""


def _way_out(text: str) -> str:
    if text.endswith("m"):
        return f'write "{text[:-1]}M" or "{text[:-1]}Mi" for megabytes or mebibytes'
    return f'cpu is counted in cores: "{text.rstrip("KMGTPEi")}", or in thousandths: "500m"'


TIME: Final = "PS420"
NO_BATCH: Final = "PS421"
_OWN: Final = ("pod.uid", "pod.name", "now", "queue")
"""What no two pods share: their evaluations cannot be shared either."""


def time_that_passes(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield filters that read the time, of policies without `requeue.every`."""
    if policy.requeue is not None and policy.requeue.every is not None:
        return
    for checked in _rejecting(policy):
        if "now" in trees.reads(checked.core):
            message = "this filter reads `now`, and no event reports that time has passed"
            hint = "set when rejected pods are retried: requeue: {every: 1m}"
            yield _whole(checked, TIME, message, hint)


def pods_that_differ(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield rules over all nodes that must be evaluated for every pod."""
    score = (
        () if policy.score is None else (policy.score.expression, *policy.score.match_conditions)
    )
    for checked in (*_rejecting(policy), *score):
        reads = trees.reads(checked.core)
        found = [name for name in _OWN if any(r == name or r.startswith(f"{name}.") for r in reads)]
        if found:
            message = f"pods cannot share the work of this rule: it reads {', '.join(found)}"
            yield _whole(checked, NO_BATCH, message, "harmless if intended")


def _rejecting(policy: CheckedPolicy) -> Iterator[Checked]:
    yield from policy.match_conditions
    if policy.pre_filter is not None and policy.pre_filter.node_names is not None:
        yield policy.pre_filter.node_names
    for rule in policy.filter:
        yield rule.expression


def _whole(checked: Checked, code: str, message: str, hint: str) -> Finding:
    return Finding(Problem(0, len(checked.text.text), code, message, hint), checked.text)


UNUSED = "PS404"


def _used(trees: Trees) -> frozenset[str]:
    """Return what the sections read, through variables and functions."""
    own = {id(checked) for _, checked in trees.policy.variables}
    return frozenset(
        name
        for checked, _ in trees.expressions
        if id(checked) not in own
        for name in trees.reads(checked.core)
    )


def unused_variables(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    """Yield variables that no section reads, not even through others."""
    used = _used(trees)
    for variable in source.variables:
        if VARIABLES + variable.name not in used:
            text = variable.expression
            message = f"no rule reads variables.{variable.name}"
            problem = Problem(0, len(text.text), UNUSED, message, "remove it, or use it")
            yield Finding(problem, text)


def unused_functions(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    """Yield functions that no section calls, and parameters that a function does not read."""
    used = _used(trees)
    for function in source.functions:
        text = function.expression
        if f"{function.name}()" not in used:
            message = f"no rule calls {function.name}()"
            yield Finding(Problem(0, len(text.text), UNUSED, message, "remove it, or use it"), text)
        known = trees.policy.functions.get(function.name)
        if known is None:
            continue
        read = {part.name for part in walk(known.body) if isinstance(part, Var)}
        for unique, (name, _) in zip(known.params, function.params, strict=True):
            if unique not in read:
                message = f"{function.name}() does not read its parameter {name}"
                yield Finding(Problem(0, len(text.text), UNUSED, message, "remove it"), text)


def unused_params(source: PolicySource, policy: CheckedPolicy) -> list[str]:
    """Return the parameters of a policy that nothing reads."""
    trees = Trees(source, policy)
    bodies = [function.body for function in policy.functions.values()]
    bodies += [checked.core for checked, _ in trees.expressions]
    names = frozenset(name for body in bodies for name in trees.reads(body))
    if "params" in names:  # by a name that is known only at run time
        return []
    return [name for name in policy.params if f"params.{name}" not in names]


def lint(source: PolicySource, policy: CheckedPolicy) -> list[Diagnostic]:
    """Return the warnings and notes about a policy without errors, in the order of their places.

    Parameters that nothing reads have no place here: see `unused_params`.
    """
    trees = Trees(source, policy)
    found = [
        *_in_definitions(trees, source),
        *_in_sections(trees),
        *filter_order(trees, policy),
        *possible_errors(trees, policy),
        *time_that_passes(trees, policy),
        *pods_that_differ(trees, policy),
    ]
    context = f"policy {policy.name}"
    shown = [diagnostic(one.problem, one.text, _context(context, one.text)) for one in found]
    return sorted(set(shown))


def _context(policy: str, text: Text) -> str:
    return f"{policy}, {text.path}" if text.path else policy


def _in_definitions(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    yield from unused_variables(trees, source)
    yield from unused_functions(trees, source)
    for function in source.functions:
        known = trees.policy.functions.get(function.name)
        if known is not None:
            yield from _anywhere(trees, Checked(known.body, function.expression), rule=False)


def _in_sections(trees: Trees) -> Iterator[Finding]:
    for checked, rule in trees.expressions:
        yield from _anywhere(trees, checked, rule=rule)


def _anywhere(trees: Trees, checked: Checked, *, rule: bool) -> Iterator[Finding]:
    yield from conditions(trees, checked, rule=rule)
    yield from suffixes(checked)


__all__ = ["lint", "unused_params"]
