"""What a rollout shows: where it is, what was measured, and what would abort it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, Protocol

import msgspec

from policy_sched.language.stdlib import text_of_timestamp
from policy_sched.profiles.models import OF_AUDITS, OF_CANARIES
from policy_sched.report import Document, table
from policy_sched.rollout.measures import MEASURES, Measures, Observed
from policy_sched.rollout.plan import AbortRule, Plan, Step
from policy_sched.rollout.state import Phase, State

EXAMPLES: Final = 10
"""How many of the last differences are shown."""
_DIGITS: Final = 12
"""Of a hash."""
_UNITS: Final = ((3600, "h"), (60, "m"), (1, "s"))
_AUDIT: Final = "audit"
Action = Literal["promote", "abort"]
_DECISIONS: Final = frozenset({"decisions", "scheduled", "errors", "victims", *OF_AUDITS})


class Example(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that the candidate decides otherwise, or would.

    ``result``: moved, tie, unschedulable, schedulable, victims or error. ``time``: ns since 1970.
    """

    pod: str
    result: str
    stable: str = ""
    candidate: str = ""
    time: int = 0


class StepReport(msgspec.Struct, frozen=True, rename="camel"):
    """A step, and whether it is done, current or to come."""

    step: str
    status: Literal["done", "current", "next"]
    seconds: float
    """How long it takes at least."""
    decisions: int


class RuleReport(msgspec.Struct, frozen=True, rename="camel"):
    """An abort rule with what it reads now."""

    expression: str
    message: str
    verdict: Literal["holds", "does not hold", "fails", "waits"]
    figures: dict[str, float]
    note: str = ""
    """Why it fails, what it waits for, or of what there is no sample."""


class RolloutReport(msgspec.Struct, frozen=True, rename="camel"):
    """A rollout; times are RFC 3339, durations seconds."""

    name: str
    phase: str
    stable: str
    candidate: str
    step: int
    """From 1; of a rollout that ended, the step in which it did."""
    since: str
    elapsed: float
    reason: str
    message: str
    figures: dict[str, float]
    steps: list[StepReport]
    measures: dict[str, Measures]
    abort_when: list[RuleReport]
    differences: list[Example]
    untried: list[str] = msgspec.field(default_factory=list)
    """What differs and is tried by no step, each with its place."""
    problems: list[str] = msgspec.field(default_factory=list)
    """The errors of an object: what it says of steps and rules is not read, and changes wait."""

    def document(self) -> Document:
        """Return the report as plain data."""
        document: Document = msgspec.to_builtins(self)
        return document

    def text_lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield from table(self._head(), gap="  ")
        yield from (line for problem in self.problems for line in ("", *problem.splitlines()))
        if self.steps:
            yield ""
            rows = [("STEP", "AT LEAST", "DECISIONS", "STATUS")]
            for i, step in enumerate(self.steps, 1):
                least = seconds_text(step.seconds) or "-"
                rows.append((f"{i}. {step.step}", least, str(step.decisions), step.status))
            yield from table(rows, right=(2,))
        yield ""
        yield from table([("MEASURE", "STABLE", "CANDIDATE"), *self.measured()], right=(1, 2))
        if self.abort_when:
            yield ""
            named = [("ABORT WHEN", "NOW", "FIGURES")]
            named += [(rule.expression, rule.verdict, _figures(rule)) for rule in self.abort_when]
            yield from table(named)
        if self.differences:
            yield ""
            pods = [
                (each.result, each.pod, each.stable or "-", each.candidate or "-")
                for each in self.differences
            ]
            yield from table([("DIFFERENCE", "POD", "STABLE", "CANDIDATE"), *pods])

    def measured(self) -> list[tuple[str, str, str]]:
        """Return the measures that the step takes as people read them: name, stable, candidate."""
        stable, candidate = (self.measures[side].by_name() for side in ("stable", "candidate"))
        left_out: Collection[str] = ()
        if self.steps:
            left_out = OF_CANARIES if self.steps[self.step - 1].step == _AUDIT else OF_AUDITS
        return [
            (name, measure_text(name, stable[name]), measure_text(name, candidate[name]))
            for name in MEASURES
            if name not in left_out
        ]

    def _head(self) -> list[tuple[str, str]]:
        where = f"{self.step} of {len(self.steps)}" if self.steps else str(self.step)
        if self.phase == Phase.PROGRESSING:
            where += f", for {seconds_text(self.elapsed) or '0s'}"
        rows = [
            ("Rollout:", self.name),
            ("Phase:", self.phase + (f" ({self.reason})" if self.reason else "")),
            ("Step:", where),
            ("Since:", self.since),
            ("Stable:", self.stable[:_DIGITS]),
            ("Candidate:", self.candidate[:_DIGITS]),
        ]
        rows += [("Message:", self.message)] if self.message else []
        return [*rows, *(("Untried:", each) for each in self.untried)]


class RolloutControl(Protocol):
    """The rollout of a running scheduler."""

    def report(self) -> RolloutReport | None:
        """Return where it is; None where nothing was ever rolled out."""
        ...

    def request(self, action: Action, candidate: str, requester: str) -> str:
        """Promote or abort a candidate; return why that cannot be, or nothing.

        ``candidate``: its hash, or the beginning; any if it is empty. ``requester``: a user's name.
        """
        ...


def rollout_report(
    plan: Plan,
    state: State,
    differences: Sequence[Example] = (),
    untried: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> RolloutReport:
    """Return what a rollout shows; of the differences, the last ones."""
    stable, candidate = state.counts.stable.measures(), state.counts.candidate.measures()
    ended = state.phase is Phase.PROMOTED
    steps = [
        StepReport(
            step_text(step),
            "done" if ended or i < state.step else "current" if i == state.step else "next",
            step.least / 1e9,
            step.decisions,
        )
        for i, step in enumerate(plan.steps)
    ]
    return RolloutReport(
        plan.name,
        str(state.phase),
        state.stable,
        state.candidate,
        min(state.step + 1, len(plan.steps) or state.step + 1),
        text_of_timestamp(state.began // 10**9 * 10**9),
        state.elapsed / 1e9,
        state.reason,
        state.message or state.failing,
        dict(state.figures),
        steps,
        {"stable": stable, "candidate": candidate},
        [_rule(rule, state.counts) for rule in plan.abort_when],
        list(differences)[-EXAMPLES:],
        list(untried),
        list(problems),
    )


def _rule(rule: AbortRule, counts: Observed) -> RuleReport:
    candidate = counts.candidate.measures()
    figures = rule.figures(counts.stable.measures(), candidate)
    told = rule.expression, rule.message
    if rule.waits(candidate):
        return RuleReport(*told, "waits", figures, f"for {rule.decisions} decisions")
    verdict = rule.judge(*counts.read_by_rules())
    if verdict.error:
        return RuleReport(*told, "fails", figures, verdict.error)
    sampled = rule.figures(*counts.read_by_rules())
    missing = ", ".join(name for name, number in sampled.items() if math.isnan(number))
    note = f"no sample of {missing}" if missing else ""
    return RuleReport(*told, "holds" if verdict.holds else "does not hold", figures, note)


def _figures(rule: RuleReport) -> str:
    shown = [f"{name} {measure_text(name, number)}" for name, number in rule.figures.items()]
    return ", ".join([*shown, *([rule.note] if rule.note else [])])


def step_text(step: Step) -> str:
    """Return a step in words."""
    return _AUDIT if step.audit else f"canary of {step.percent} % by {step.by}"


def measure_text(name: str, number: float) -> str:
    """Return the value of a measure as people read it; the name may begin with the side."""
    name = name.rpartition(".")[2]
    if name in _DECISIONS:
        return f"{number:,.0f}"
    if name in OF_CANARIES:
        return f"{number:.3g}s" if number >= 1 or not number else f"{1000 * number:.3g}ms"
    return f"{100 * number:.3g} %"


def seconds_text(seconds: float) -> str:
    """Return a duration such as ``1h2m``, in whole seconds; nothing for none."""
    left, text = int(seconds), ""
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text
