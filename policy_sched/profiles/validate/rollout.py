"""What types cannot express of a Rollout: that its steps rise, and that each of them can end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from policy_sched.profiles import models

if TYPE_CHECKING:
    from policy_sched.profiles.models import AuditStep, CanaryStep, Rollout

STEPS: Final = "PS717"


def check_rollout_steps(rollout: Rollout) -> Iterator[models.ModelProblem]:
    """Yield the problems of steps: audits come first, and percents of canaries rise."""
    last: CanaryStep | None = None
    for i, step in enumerate(rollout.spec.steps):
        at: models.Path = ("spec", "steps", i)
        if step.audit is not None and step.canary is not None:
            why = "Forbidden: the step has audit already"
            hint = "write two steps, the audit first"
            yield models.problem_at((*at, "canary"), why, hint=hint, on_key=True)
            continue
        canary, audit = step.canary, step.audit
        if audit is not None:
            yield from _end_of(audit, (*at, "audit"))
            if last is not None:
                why = f"the step before decides {last.percent} % of the pods, an audit none"
                hint = "audits come before canaries"
                yield models.problem_at((*at, "audit"), why, STEPS, hint, on_key=True)
        elif canary is not None:
            yield from _end_of(canary, (*at, "canary"))
            yield from () if last is None else _after(last, canary, (*at, "canary"))
            last = canary
        else:
            yield models.required(at, "audit or canary")


def _end_of(step: AuditStep | CanaryStep, at: models.Path) -> Iterator[models.ModelProblem]:
    """Yield that a step ends at once, or that its time is none."""
    stated = step.model_fields_set
    if not {"for_", "decisions"} & stated:
        yield models.required(at, "for or decisions: when the step ends")
    if step.for_ is not None and step.for_ <= 0:
        why = "Invalid value: must be greater than 0"
        yield models.problem_at((*at, "for"), why, hint="for example 10m")


def _after(last: CanaryStep, canary: CanaryStep, at: models.Path) -> Iterator[models.ModelProblem]:
    """Yield what a step would take away from the candidate."""
    if canary.percent <= last.percent:
        why = f"{canary.percent} does not follow {last.percent}, the percent of the step before"
        hint = "percents rise: a pod that the candidate decides stays on its side"
        yield models.problem_at((*at, "percent"), why, STEPS, hint)
    if canary.by != last.by:
        why = f"{canary.by} does not follow {last.by}: pods would change sides"
        yield models.problem_at((*at, "by"), why, STEPS, f"write {last.by} in every step")
