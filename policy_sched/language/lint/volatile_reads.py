"""Rules whose value changes with time, or differs for every pod (PS420, PS421)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.language.check import Checked, CheckedPolicy
from policy_sched.language.diagnostics import Problem
from policy_sched.language.lint.visitor import Finding, Trees

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
