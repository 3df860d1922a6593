"""Checks Rollouts: their steps, and the types of the rules that abort them.

An abort rule is an expression over `stable` and `candidate`, two records of measures. It is
compiled as any other rule is, and run for one row of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import Expression, compile_expression
from policy_sched.language.check import check_beside, diagnostic, walk
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.lint import constant_conditions
from policy_sched.language.lower import Refusal
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import one_evaluation
from policy_sched.profiles import models
from policy_sched.profiles.load import (
    DocumentPosition,
    LoadedPolicy,
    covered,
    kind_of,
    locator,
    policy_source,
    read_rollout,
)
from policy_sched.profiles.validate import STEPS
from policy_sched.source import Marked

if TYPE_CHECKING:
    from policy_sched.profiles.build import CompiledPlan

SECTION = "abortWhen"
UNTRIED = "PS718"
_PROMOTED = {"queue_sort": "queueSort", "queue_order": "queueOrder", "evict": "evict"}
"""Sections that are those of the set in force until a candidate is promoted."""


@dataclass(frozen=True, slots=True)
class CheckedAbortRule:
    """A compiled abort rule, and the measures that it names, such as ``candidate.errors``."""

    model: models.AbortCondition
    expression: Expression
    text: Text
    reads: Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class CheckedRollout:
    """A Rollout without problems."""

    model: models.Rollout
    rules: tuple[CheckedAbortRule, ...]


def is_rollout(marked: Marked) -> bool:
    """Return whether a document is a Rollout of ours."""
    return kind_of(marked.value) == (models.POLICY_API_VERSION, models.ROLLOUT_KIND)


def rollout_problems(marked: Marked, policies: Sequence[LoadedPolicy]) -> list[Diagnostic]:
    """Return every problem of a Rollout, and what of the policies beside it no step tries."""
    rollout, problems = check_rollout(marked)
    if rollout is not None:
        for policy in (policy for policy in policies if policy.sound):
            problems += untried_sections(policy_source(policy), rollout.model.metadata.name)
    return problems


def another_rollout(first: Marked, other: Marked) -> list[Diagnostic]:
    """Return the problem of a second Rollout in a set of policies."""
    message = f"there is a Rollout in {first.file.path} already; a set has one"
    problem = models.ModelProblem(("kind",), models.DUPLICATE, message, "delete one of them")
    return DocumentPosition(other.file.path, other).diagnostics([problem])


def untried_sections(
    source: PolicySource | None, rollout: str, in_force: PolicySource | None = None
) -> Iterator[Diagnostic]:
    """Yield the sections of a candidate's policy that no step of a rollout tries.

    ``in_force``: the policy of that name before, where it is known; what is the same is left out,
    and what is gone is told at its old place.
    """
    for field, section in _PROMOTED.items():
        new, old = (getattr(policy, field, None) or None for policy in (source, in_force))
        given = new or old
        if given and new != old:
            rule = given[0].expression if isinstance(given, tuple) else given
            text = getattr(rule, "by", None) or getattr(rule, "victim", rule)
            message = f"no step of the Rollout {rollout} tries a change of {section}"
            hint = "it comes in force with the promotion; change it by itself, without the Rollout"
            problem = Problem(0, len(text.text), UNTRIED, message, hint)
            name = (source or in_force or PolicySource("")).name
            yield diagnostic(problem, text, f"policy {name}, {text.path}")


def untried_changes(
    before: Sequence[CompiledPlan],
    after: Sequence[CompiledPlan],
    rollout: str,
    read: Callable[[], Iterable[LoadedPolicy]] = tuple,
) -> list[Diagnostic]:
    """Return as warnings what differs between two sets and is tried by no step of a rollout.

    ``read``: reads the policies of the second set, where another process compiled it: what that
    returns has no places.
    """
    old, new = (
        {name: source for ready in plans for name, source in ready.plan.policies.items()}
        for plans in (before, after)
    )

    def untried(names: Iterable[str]) -> dict[str, list[Diagnostic]]:
        told = {name: [*untried_sections(new.get(name), rollout, old.get(name))] for name in names}
        return {name: problems for name, problems in told.items() if problems}

    changed = untried(dict.fromkeys((*new, *old)))
    if changed:
        new |= {p.name: policy_source(p) for p in read() if p.sound and p.name in changed}
        changed = untried(changed)
    return [replace(p, severity=Severity.WARNING) for some in changed.values() for p in some]


def check_rollout(marked: Marked) -> tuple[CheckedRollout | None, list[Diagnostic]]:
    """Return a Rollout with its rules compiled, or None with every problem of it."""
    model, wrong_shape = read_rollout(marked)
    problems = DocumentPosition(marked.file.path, marked).diagnostics(wrong_shape)
    if model is None:
        return None, problems
    rules: list[CheckedAbortRule] = []
    for i, condition in enumerate(model.spec.abort_when):
        path: models.Path = ("spec", SECTION, i, "expression")
        if covered(path, wrong_shape):
            continue
        rule, wrong = _compiled(marked, path, condition)
        problems += wrong
        if rule is not None:
            rules.append(rule)
            problems += _unmeasured(rule, model.spec.steps)
    sound = not any(problem.severity is Severity.ERROR for problem in problems)
    return (CheckedRollout(model, tuple(rules)) if sound else None), sorted(problems)


def _compiled(
    marked: Marked, path: models.Path, condition: models.AbortCondition
) -> tuple[CheckedAbortRule | None, list[Diagnostic]]:
    text = Text(
        condition.expression, marked.file.path, locator(marked, path), models.path_text(path)
    )
    policy, problems = check_beside(text, SECTION, PolicySource(""))
    if policy is None:
        return None, problems
    (checked,) = policy.match_conditions
    try:
        with one_evaluation():
            expression = compile_expression(checked.core)
    except Refusal as refusal:
        span = refusal.span
        problem = Problem(span.start, span.end, refusal.code, refusal.message, refusal.hint)
        return None, [*problems, diagnostic(problem, checked.text, text.path)]
    problems += (
        replace(diagnostic(constant, checked.text, text.path), severity=Severity.WARNING)
        for constant in constant_conditions(policy, checked.core)
    )
    reads = {
        f"{part.operand.name}.{part.name}": part.span
        for part in walk(checked.core)
        if isinstance(part, ast.Field) and isinstance(part.operand, ast.Var)
    }
    return CheckedAbortRule(condition, expression, text, reads), problems


def _unmeasured(
    rule: CheckedAbortRule, steps: Sequence[models.RolloutStep]
) -> Iterator[Diagnostic]:
    """Yield the measures of a rule that no step takes."""
    audits = any(step.audit is not None for step in steps)
    canaries = any(step.canary is not None for step in steps)
    for name, span in rule.reads.items():
        measure = name.partition(".")[2]
        for there, of, what in (
            (audits, models.OF_AUDITS, "audits"),
            (canaries, models.OF_CANARIES, "canaries"),
        ):
            if measure in of and not there:
                message = f"{measure} is measured in {what} alone, and no step is one"
                hint = "the rule never speaks: add a step, or read another measure"
                problem = Problem(span.start, span.end, STEPS, message, hint)
                told = diagnostic(problem, rule.text, rule.text.path)
                yield replace(told, severity=Severity.WARNING)
