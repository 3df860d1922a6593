"""How a rollout goes on: from what was counted to what is to be done.

Theory of operation. The driver of a rollout calls `reconcile` when it begins, and when
the candidate, the stable set or the plan is another one; and `advance` at least once in
`LONGEST_GAP`, with what was counted since. Both return a new state and effects. **The state is
written first, and the effects follow only when that write succeeded**: of two schedulers that both
believe to lead, one finds that the state changed meanwhile, does nothing and reads it again.
`reconcile` with a state that is unchanged returns the effect that holds now, so a scheduler that
dies between write and effect loses nothing.

A step ends when it has been driven for its time *and* the candidate has made its decisions, so
that a clock that is set forward skips nothing; of the time between two calls no more than
`LONGEST_GAP` counts, and none of a clock that was set back. Counts begin anew with each step.

An abort rule that holds aborts. One that has no value (a division by zero) says nothing in favour
of the candidate: the step goes on without an end while there may be too few figures, and when time
and decisions are up and it still fails, the rollout is aborted. So is an audit that says too little
at that point: the candidate took too long for most decisions, or none could be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.model import counted
from policy_sched.rollout.measures import Measures, Observed
from policy_sched.rollout.plan import AbortRule, Plan, Step
from policy_sched.rollout.sides import By
from policy_sched.rollout.state import Phase, State, clipped

LONGEST_GAP: Final = 60 * 10**9
"""Nanoseconds: what counts at most of the time between two calls of `advance`."""
ENOUGH: Final = 20
"""Decisions from which on an audit that compares none of them, or hardly any, is given up."""


class BeginStep(msgspec.Struct, frozen=True):
    """Let the candidate decide ``percent`` of what ``by`` names; audit it if that is 0."""

    step: int
    percent: int
    by: By
    audit: bool


class Promote(msgspec.Struct, frozen=True):
    """Make the candidate the set in force."""


class Abort(msgspec.Struct, frozen=True):
    """Let the stable set decide everything, and say why."""

    reason: str
    message: str
    figures: Mapping[str, float]


class Replace(msgspec.Struct, frozen=True):
    """Give up a candidate for another one, which begins at the first step."""

    candidate: str
    reason: str


Effect = BeginStep | Promote | Abort | Replace
Outcome = tuple[State, tuple[Effect, ...]]


def reconcile(
    plan: Plan, state: State | None, stable: str, candidate: str, now: int
) -> tuple[State | None, tuple[Effect, ...]]:
    """Return the state for the sets that there are now, and what holds.

    ``stable`` and ``candidate`` are hashes: the set in force, and the one that is asked for.
    Without a candidate of its own a rollout has nothing to do. A candidate that was aborted stays
    so until it, or the plan, is another one.
    """
    ours = state is not None and state.rollout == plan.identity
    same = state is not None and ours and state.candidate == candidate
    if candidate == stable:
        return _at_rest(state, stable, now)
    if state is not None and same:
        if state.phase is Phase.PROMOTED:
            return state, (Promote(),)
        unchanged = state.plan == plan.hash
        if state.phase is Phase.ABORTED and unchanged:
            return state, ()
        driven = state.phase is Phase.PROGRESSING and state.step < len(plan.steps)
        if driven and unchanged and state.stable == stable:
            return state, (_begin_step(plan, state.step),)
    begun = State(plan.identity, plan.hash, stable, candidate, began=now, seen=now)
    effects: tuple[Effect, ...] = (_begin_step(plan, 0),)
    if state is not None and state.phase is Phase.PROGRESSING and not same:
        reason = "NewCandidate" if ours else "NewRollout"
        effects = (Replace(state.candidate, reason), *effects)
    return begun, effects


def _at_rest(state: State | None, stable: str, now: int) -> tuple[State | None, tuple[Effect, ...]]:
    """Return the state where the set in force is the one that is asked for."""
    if state is None or state.phase is Phase.REPLACED:
        return state, ()
    if state.candidate == stable:
        if state.phase is Phase.PROMOTED:
            return state, ()
        return replace(_ended(state, Phase.PROMOTED, now), reason="InForce"), ()
    ended = _ended(state, Phase.REPLACED, now)
    effects = (Replace(state.candidate, "TakenBack"),) if _driven(state) else ()
    return replace(ended, reason="TakenBack", message="the change was taken back"), effects


def advance(plan: Plan, state: State, observed: Observed, now: int) -> Outcome:
    """Return the state and the effects after ``observed`` was counted since the last call.

    At most one step ends.
    """
    if not _driven(state):
        return state, ()
    gap = min(max(now - state.seen, 0), LONGEST_GAP)
    counts = state.counts.plus(observed)
    state = replace(state, seen=now, elapsed=state.elapsed + gap, counts=counts, failing="")
    stable, candidate = counts.stable.measures(), counts.candidate.measures()
    for rule in plan.abort_when:
        if rule.waits(candidate):
            continue
        verdict = rule.judge(*counts.read_by_rules())
        if verdict.error:
            state = replace(state, failing=clipped(f"{rule.expression}: {verdict.error}"))
        elif verdict.holds:
            return _aborted_by(rule, state, stable, candidate, now)
    step = plan.steps[state.step]
    over = state.elapsed >= step.least
    if step.audit and (why := _not_compared(step, candidate, over=over)):
        return abort(state, now, "NotCompared", f"{why}: begin with a canary", _figures(candidate))
    if not over or candidate.asked < max(step.decisions, 1):
        return state, ()
    if state.failing:
        return abort(state, now, "AbortRuleFailed", f"an abort rule has no value: {state.failing}")
    if state.step + 1 == len(plan.steps):
        figures = {"candidate.decisions": float(candidate.decisions)}
        ended = _ended(state, Phase.PROMOTED, now)
        return replace(
            ended, reason="StepsPassed", message="every step has passed", figures=figures
        ), (Promote(),)
    begun = replace(state, step=state.step + 1, began=now, elapsed=0, counts=Observed())
    return begun, (_begin_step(plan, begun.step),)


def _not_compared(step: Step, candidate: Measures, *, over: bool) -> str:
    """Return why an audit compares too little, or nothing; ``over``: its time is."""
    asked, long, skipped = candidate.asked, candidate.long, candidate.skipped
    most = over and asked >= step.decisions and 2 * long > asked
    if most or (long >= ENOUGH and 10 * long >= 9 * asked):
        return f"the candidate takes too long for {long} of {asked} decisions"
    if over and not asked and skipped >= max(step.decisions, ENOUGH):
        return f"none of {skipped} decisions could be compared"
    return ""


def _figures(candidate: Measures) -> dict[str, float]:
    shown = "decisions", "long", "skipped"
    return {f"candidate.{name}": float(getattr(candidate, name)) for name in shown}


def promote(state: State, now: int, requester: str = "") -> Outcome:
    """Return the state and the effects of a promotion that was asked for."""
    if not _driven(state):
        return state, ()
    message = f"promoted in step {state.step + 1}" + (f" by {requester}" if requester else "")
    ended = _ended(state, Phase.PROMOTED, now)
    return replace(ended, reason="Requested", message=clipped(message)), (Promote(),)


def abort(
    state: State,
    now: int,
    reason: str = "Requested",
    message: str = "",
    figures: Mapping[str, float] | None = None,
) -> Outcome:
    """Return the state and the effects of an abort."""
    if not _driven(state):
        return state, ()
    message = clipped(message or f"aborted in step {state.step + 1}")
    ended = _ended(state, Phase.ABORTED, now)
    told = replace(ended, reason=reason, message=message, figures=dict(figures or {}))
    return told, (Abort(reason, message, told.figures),)


def _driven(state: State) -> bool:
    return state.phase is Phase.PROGRESSING


def _begin_step(plan: Plan, number: int) -> BeginStep:
    step = plan.steps[number]
    return BeginStep(number, step.percent, step.by, step.audit)


def _ended(state: State, phase: Phase, now: int) -> State:
    return replace(state, phase=phase, began=now, seen=now, failing="")


def _aborted_by(
    rule: AbortRule, state: State, stable: Measures, candidate: Measures, now: int
) -> Outcome:
    """Return the abort of a rule that holds, with the figures that it read."""
    figures = rule.figures(stable, candidate)
    shown = ", ".join(f"{name} {number:.4g}" for name, number in figures.items())
    words = rule.message or rule.expression
    asked = counted(candidate.asked, "decision")
    message = f"{words} ({shown}) after {asked}" if shown else words
    return abort(state, now, "AbortRuleHolds", message, figures)
