"""Finds what is well formed in a policy and still not what its author can have meant.

Theory of operation. Each lint looks at the typed trees of a checked policy, where names and
overloads are settled; constant conditions and failures come from the compiler, which knows the
ranges of columns. What depends on a parameter is left alone: another value changes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from policy_sched.errors import Diagnostic
from policy_sched.language.check import Checked, CheckedPolicy, diagnostic
from policy_sched.language.diagnostics import PolicySource, Text
from policy_sched.language.lint.conditions import conditions, filter_order
from policy_sched.language.lint.possible_errors import possible_errors
from policy_sched.language.lint.units import suffixes
from policy_sched.language.lint.unused import unused_functions, unused_params, unused_variables
from policy_sched.language.lint.visitor import Finding, Trees
from policy_sched.language.lint.volatile_reads import pods_that_differ, time_that_passes


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
