"""Rollouts as documents and as objects of a cluster: plan, status, and what is asked of them.

This compiles rules, so a scheduler without a rollout does not import it. The right to change an
object is the right to promote and abort: a request is an annotation whose value is the hash of the
candidate that it is about, so that one that comes too late is about nothing. A slash and a text may
follow, so that the same is asked once more of a candidate that is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.stdlib import text_of_timestamp
from policy_sched.language.values import KINDS, LimitError, one_evaluation
from policy_sched.profiles.check import UNTRIED, CheckedAbortRule, CheckedRollout
from policy_sched.profiles.load import PolicyObject
from policy_sched.profiles.models import ROLLOUT_KIND, RolloutStep
from policy_sched.profiles.reload import checked_rollout
from policy_sched.rollout.measures import Measures
from policy_sched.rollout.plan import AbortRule, Plan, Step, Verdict
from policy_sched.rollout.report import Action, Example, RolloutReport, rollout_report
from policy_sched.rollout.state import Phase, State, StateError, read_state

ANNOTATIONS: Final[dict[Action, str]] = {
    "abort": "policysched.dev/abort",
    "promote": "policysched.dev/promote",
}
"""By what is asked; an abort counts before a promotion."""
Plain = Mapping[str, Any]


def plan_of(checked: CheckedRollout, uid: str = "") -> Plan:
    """Return the plan of a Rollout; ``uid`` is that of its object, if it is one."""
    spec, name = checked.model.spec, checked.model.metadata.name
    steps = [_step(step) for step in spec.steps]
    return Plan(name, uid or name, tuple(steps), tuple(map(_rule, checked.rules)))


def _step(step: RolloutStep) -> Step:
    if step.canary is not None:
        canary = step.canary
        return Step(canary.percent, canary.by, canary.for_ or 0, canary.decisions)
    assert step.audit is not None, "the document was checked"
    return Step(least=step.audit.for_ or 0, decisions=step.audit.decisions)


class _Sides(msgspec.Struct, frozen=True):
    """What an abort rule reads, in place of an attempt."""

    stable: Measures
    candidate: Measures


def _rule(checked: CheckedAbortRule) -> AbortRule:
    expression = checked.expression
    functions = expression.bind(NodeTable()).functions

    def judge(stable: Measures, candidate: Measures) -> Verdict:
        try:
            with one_evaluation():
                out = functions.scalar(None, _Sides(stable, candidate), 0)
        except LimitError as error:
            return Verdict(error=str(error))
        if expression.can_fail and out[1]:
            return Verdict(error=KINDS[expression.sites[out[1]].kind].replace("_", " "))
        return Verdict(bool(out[0]))

    model = checked.model
    return AbortRule(model.expression, model.message, judge, model.decisions, tuple(checked.reads))


def requested(
    annotations: Mapping[str, str], state: State, answered: Mapping[str, str] | None = None
) -> Action | None:
    """Return what the annotations of an object ask for the candidate of a state, if anything.

    ``answered``: those that were done before, by action.
    """
    done = answered_by(annotations, state)
    for action, key in ANNOTATIONS.items():
        value = annotations.get(key)
        if value is not None and action not in done and (answered or {}).get(action) != value:
            return action
    return None


def answered_by(annotations: Mapping[str, str], state: State | None) -> dict[Action, str]:
    """Return the requests that are about no candidate that is on its way."""
    about = state.candidate if state is not None and state.phase is Phase.PROGRESSING else None
    return {
        action: annotations[key]
        for action, key in ANNOTATIONS.items()
        if key in annotations and annotations[key].partition("/")[0] != about
    }


def plan_of_object(value: Plain) -> tuple[Plan | None, list[Diagnostic]]:
    """Return the plan of an object as the API has it, or None with every problem of it."""
    metadata = value.get("metadata") or {}
    raw = msgspec.json.encode(
        {key: value.get(key) for key in ("apiVersion", "kind", "metadata", "spec")}
    )
    given = PolicyObject(metadata.get("name", ""), raw, kind=ROLLOUT_KIND)
    checked, problems = checked_rollout(given)
    plan = None if checked is None else plan_of(checked, metadata.get("uid", ""))
    return plan, list(problems)


def state_of_object(value: Plain) -> State | None:
    """Return the state in an object's status; None without one. Raises StateError."""
    status = value.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    return None if state is None else read_state(json.dumps(state))


class _Shown(msgspec.Struct):
    """What a status has beside the state."""

    differences: list[Example] = []
    untried: list[str] = []


def report_of_object(value: Plain) -> RolloutReport:
    """Return what an object shows: without steps and rules where these have errors.

    Raises StateError if it has no state that can be read.
    """
    plan, problems = plan_of_object(value)
    told = [problem.render() for problem in problems if problem.severity is Severity.ERROR]
    state = state_of_object(value)
    if plan is None:
        plan = Plan(str((value.get("metadata") or {}).get("name", "")), "", ())
    if state is None:
        waits = f"rollout {plan.name} has not begun: no scheduler has written its status"
        raise StateError("\n".join(told or [waits]))
    try:
        shown = msgspec.convert(value["status"], _Shown)
    except msgspec.ValidationError as error:
        raise StateError(f"the status of rollout {plan.name} cannot be read: {error}") from None
    return rollout_report(plan, state, shown.differences, shown.untried, told)


def status_of(
    report: RolloutReport, state: State, generation: int, percent: int = 0
) -> dict[str, Any]:
    """Return the status of an object, as `RolloutStatus` describes it.

    ``percent``: how many pods in a hundred the candidate decides.
    """
    since = text_of_timestamp(state.began // 10**9 * 10**9)
    reason = state.reason or str(state.phase)
    holding = {
        "Promoted": (state.phase is Phase.PROMOTED, reason, report.message),
        "Aborted": (state.phase is Phase.ABORTED, reason, report.message),
        "Untried": (bool(report.untried), UNTRIED, "; ".join(report.untried)),
    }
    return {
        "observedGeneration": generation,
        "phase": str(state.phase),
        "step": f"{report.step}/{len(report.steps)}",
        "percent": percent,
        "stable": state.stable,
        "candidate": state.candidate,
        "message": report.message,
        "conditions": [
            {
                "type": name,
                "status": "True" if holds else "False",
                "reason": why,
                "message": message,
                "lastTransitionTime": since,
                "observedGeneration": generation,
            }
            for name, (holds, why, message) in holding.items()
            if holds or name != "Untried"
        ],
        "untried": report.untried,
        "differences": report.document()["differences"],
        "state": json.loads(state.text()),
    }
