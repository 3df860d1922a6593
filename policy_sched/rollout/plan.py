"""The plan of a rollout: its steps, and the rules that abort it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from policy_sched.cluster.tables import NodeTable
from policy_sched.language.values import KINDS, LimitError, one_evaluation
from policy_sched.profiles.check import CheckedAbortRule, CheckedRollout
from policy_sched.profiles.models import RolloutStep
from policy_sched.rollout.measures import Measures
from policy_sched.rollout.sides import By

_HASH: Final = 16


class Step(msgspec.Struct, frozen=True):
    """One step: an audit, or a canary that decides ``percent`` of what ``by`` names.

    It ends when it has lasted ``least`` nanoseconds and the candidate has made ``decisions``.
    """

    percent: int = 0
    by: By = "Owner"
    least: int = 0
    decisions: int = 1

    @property
    def audit(self) -> bool:
        """Whether the candidate decides nothing, and is evaluated beside what is in force."""
        return self.percent == 0


class Verdict(msgspec.Struct, frozen=True):
    """What an abort rule says: it holds or not, or why it has no value."""

    holds: bool = False
    error: str = ""


class AbortRule(msgspec.Struct, frozen=True):
    """A rule that aborts the rollout when it holds, once the candidate has made ``decisions``.

    ``judge`` takes the measures of stable and candidate. ``reads``: the measures that the rule
    names, such as ``candidate.errors``, in their order.
    """

    expression: str
    message: str
    judge: Callable[[Measures, Measures], Verdict]
    decisions: int = 1
    reads: tuple[str, ...] = ()

    def figures(self, stable: Measures, candidate: Measures) -> dict[str, float]:
        """Return the measures that the rule names."""
        sides = {"stable": _by_name(stable), "candidate": _by_name(candidate)}
        figures = {}
        for name in self.reads:
            side, _, measure = name.partition(".")
            figures[name] = sides[side][measure]
        return figures


def _by_name(measures: Measures) -> dict[str, float]:
    by_name: dict[str, float] = msgspec.to_builtins(measures)
    return by_name


class Plan(msgspec.Struct, frozen=True):
    """A rollout without problems.

    ``identity`` is the uid of the object, or the name of the file's document.
    """

    name: str
    identity: str
    steps: tuple[Step, ...]
    abort_when: tuple[AbortRule, ...] = ()

    @property
    def hash(self) -> str:
        """A hash of steps and rules: a plan with another one begins at its first step."""
        rules = [(rule.expression, rule.decisions) for rule in self.abort_when]
        text = msgspec.json.encode((self.steps, rules))
        return hashlib.sha256(text).hexdigest()[:_HASH]

    def sides(self, candidate: str) -> str:
        """Return what `share_of` takes for a candidate: another one takes other pods first."""
        return f"{self.identity}/{candidate}"


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
    return AbortRule(model.expression, model.message, judge, model.decisions, checked.reads)
