"""The plan of a rollout: its steps, and the rules that abort it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

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

    def waits(self, candidate: Measures) -> bool:
        """Return whether the candidate has decided too little for the rule."""
        return candidate.asked < self.decisions

    def figures(self, stable: Measures, candidate: Measures) -> dict[str, float]:
        """Return the measures that the rule names."""
        sides = {"stable": stable.by_name(), "candidate": candidate.by_name()}
        figures = {}
        for name in self.reads:
            side, _, measure = name.partition(".")
            figures[name] = sides[side][measure]
        return figures


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
