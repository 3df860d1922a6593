"""Names that a policy defines and nothing reads (PS404)."""

from __future__ import annotations

from collections.abc import Iterator

from policy_sched.language.check import CheckedPolicy
from policy_sched.language.diagnostics import PolicySource, Problem
from policy_sched.language.lint.visitor import VARIABLES, Finding, Trees, walk
from policy_sched.language.syntax import Var

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
