"""The state machine: each step once, in order, and what ends a rollout."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from policy_sched.rollout import (
    LONGEST_GAP,
    Abort,
    AbortRule,
    BeginStep,
    Counts,
    Effect,
    Observed,
    Phase,
    Plan,
    Promote,
    Replace,
    State,
    Step,
    Verdict,
    abort,
    advance,
    promote,
    reconcile,
)
from tests.rollout.plans import DIVIDED, MINUTE, PLAN, WORSE, counted

AUDIT = BeginStep(0, 0, "Owner", audit=True)
TENTH = BeginStep(1, 10, "Owner", audit=False)
HALF = BeginStep(2, 50, "Owner", audit=False)


def begun(plan: Plan = PLAN, now: int = 0) -> State:
    """Return the state of a rollout that has just begun."""
    state, effects = reconcile(plan, None, "old", "new", now)
    assert state is not None
    assert effects == (BeginStep(0, plan.steps[0].percent, "Owner", plan.steps[0].audit),)
    return state


def driven(
    plan: Plan, state: State, minutes: int, decisions: int = 0, failed: int = 0
) -> tuple[State, list[Effect]]:
    """Advance minute by minute, with so many decisions in each, from where the state is."""
    effects: list[Effect] = []
    for _ in range(minutes):
        state, done = advance(plan, state, counted(decisions, failed), state.seen + MINUTE)
        effects += done
    return state, effects


def test_a_rollout_goes_through_its_steps() -> None:
    """Each step begins once, in order, and the candidate is promoted after the last."""
    state, effects = driven(PLAN, begun(), 51, 50)
    assert effects == [TENTH, HALF, Promote()]
    assert state.phase is Phase.PROMOTED
    assert (state.reason, state.figures) == ("StepsPassed", {"candidate.decisions": 1000.0})


def test_a_step_needs_its_time_and_its_decisions() -> None:
    """Time without decisions ends no step, nor do decisions without time."""
    assert driven(PLAN, begun(), 300, 1)[1] == []
    state, effects = advance(PLAN, begun(), counted(10_000), 9 * MINUTE)
    assert effects == ()
    assert driven(PLAN, state, 8)[1] == []
    assert driven(PLAN, state, 9)[1] == [TENTH]


def test_a_step_without_decisions_in_the_plan_needs_one() -> None:
    """A canary of which no pod was decided has not been tried."""
    state, _ = driven(PLAN, begun(), 10, 50)
    assert state.step == 1
    state, effects = driven(PLAN, state, 100)
    assert effects == []
    assert advance(PLAN, state, counted(1), state.seen)[1] == (HALF,)


def test_counts_begin_anew_with_a_step() -> None:
    """What an audit counted is no figure of the canary."""
    state, _ = driven(PLAN, begun(), 10, 50)
    assert (state.step, state.counts, state.elapsed) == (1, Observed(), 0)


def test_a_clock_that_is_set_forward_skips_nothing() -> None:
    """Of the time between two calls a minute counts: a year without a scheduler is no trial."""
    state, effects = advance(PLAN, begun(), counted(1000), 365 * 24 * 60 * MINUTE)
    assert effects == ()
    assert state.elapsed == LONGEST_GAP


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    """Time that was driven stays, and what follows counts again."""
    state, _ = driven(PLAN, begun(now=100 * MINUTE), 9, 100)
    state, effects = advance(PLAN, state, counted(), 3 * MINUTE)
    assert (effects, state.elapsed) == ((), 9 * MINUTE)
    assert driven(PLAN, state, 1)[1] == [TENTH]


def test_a_rule_that_holds_aborts_with_its_figures() -> None:
    """The stable set stays, and the reason has the numbers."""
    state, effects = driven(PLAN, begun(), 1, 100, 5)
    message = (
        "more pods find no node (candidate.unschedulable 0.05, stable.unschedulable 0) "
        "after 100 decisions"
    )
    figures = {"candidate.unschedulable": 0.05, "stable.unschedulable": 0.0}
    assert effects == [Abort("AbortRuleHolds", message, figures)]
    assert (state.phase, state.message, state.figures) == (Phase.ABORTED, message, figures)
    assert driven(PLAN, state, 100, 100) == (state, [])


def test_a_rule_waits_for_its_decisions() -> None:
    """A rule with a minimum says nothing of fewer decisions."""
    plan = replace(PLAN, abort_when=(replace(WORSE, decisions=200),))
    state, effects = driven(plan, begun(plan), 1, 100, 5)
    assert effects == []
    assert [type(e) for e in driven(plan, state, 1, 100, 5)[1]] == [Abort]


def test_a_rule_without_a_value_holds_the_step() -> None:
    """A division by zero ends no step; when it is up all the same, the rollout is aborted."""
    plan = replace(PLAN, abort_when=(DIVIDED,))
    state, effects = driven(plan, begun(plan), 9, 100)
    assert effects == []
    assert state.failing == "candidate.victims / stable.victims > 2: division by zero"
    state, effects = driven(plan, state, 1, 100)
    assert [type(effect) for effect in effects] == [Abort]
    assert state.reason == "AbortRuleFailed"
    assert "division by zero" in state.message


def test_another_rule_that_holds_aborts_beside_one_that_fails() -> None:
    """Every rule is asked, whatever the one before it says."""
    plan = replace(PLAN, abort_when=(DIVIDED, WORSE))
    state, _ = driven(plan, begun(plan), 1, 100, 50)
    assert state.reason == "AbortRuleHolds"


def test_a_newer_candidate_begins_at_the_first_step() -> None:
    """The older one is given up, wherever it was."""
    state, _ = driven(PLAN, begun(), 10, 50)
    newer, effects = reconcile(PLAN, state, "old", "newer", state.seen)
    assert effects == (Replace("new", "NewCandidate"), AUDIT)
    assert newer is not None
    assert (newer.candidate, newer.step, newer.counts) == ("newer", 0, Observed())


def test_a_change_that_is_taken_back_ends_the_rollout() -> None:
    """The stable set decides, and the same change may be tried anew."""
    state, effects = reconcile(PLAN, begun(), "old", "old", 1)
    assert effects == (Replace("new", "TakenBack"),)
    assert state is not None
    assert state.phase is Phase.REPLACED
    assert reconcile(PLAN, state, "old", "new", 2)[1] == (AUDIT,)


def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    """The state is the same, and the step that holds is told again."""
    state, _ = driven(PLAN, begun(), 10, 50)
    assert reconcile(PLAN, state, "old", "new", state.seen + 1) == (state, (TENTH,))


def test_a_leader_that_died_before_it_promoted_is_made_up_for() -> None:
    """A state that says promoted, of a candidate that is not in force, promotes."""
    state, _ = promote(begun(), 1)
    assert reconcile(PLAN, state, "old", "new", 2) == (state, (Promote(),))
    assert reconcile(PLAN, state, "new", "new", 2) == (state, ())


def test_a_candidate_that_was_aborted_stays_so() -> None:
    """A restart tries nothing again; another plan, or another candidate, does."""
    state, effects = abort(begun(), 1, message="no")
    assert effects == (Abort("Requested", "no", {}),)
    assert reconcile(PLAN, state, "old", "new", 2) == (state, ())
    assert reconcile(PLAN, state, "other", "new", 2) == (state, ())
    assert reconcile(replace(PLAN, abort_when=()), state, "old", "new", 2)[1] == (AUDIT,)
    assert reconcile(PLAN, state, "old", "newer", 2)[1] == (AUDIT,)
    gone, effects = reconcile(PLAN, state, "old", "old", 2)
    assert (gone is not None and gone.phase, effects) == (Phase.REPLACED, ())


def test_other_steps_begin_at_the_first_one() -> None:
    """A plan that was edited is another one, and so is a stable set."""
    state, _ = driven(PLAN, begun(), 10, 50)
    plan = replace(PLAN, steps=PLAN.steps[:2])
    assert reconcile(plan, state, "old", "new", state.seen)[1] == (AUDIT,)
    assert reconcile(PLAN, state, "other", "new", state.seen)[1] == (AUDIT,)
    another = replace(PLAN, identity="another")
    assert reconcile(another, state, "old", "new", state.seen)[1] == (
        Replace("new", "NewRollout"),
        AUDIT,
    )


def test_who_asks_promotes_or_aborts_at_once() -> None:
    """A promotion skips what is left; a rollout that has ended does neither."""
    state, effects = promote(begun(), 7, "anna")
    assert effects == (Promote(),)
    assert (state.reason, state.message) == ("Requested", "promoted in step 1 by anna")
    assert (state.began, promote(state, 8), abort(state, 8)) == (7, (state, ()), (state, ()))


def test_nothing_to_roll_out_has_no_state() -> None:
    """Without a candidate of its own there is no rollout."""
    assert reconcile(PLAN, None, "old", "old", 1) == (None, ())
    state, effects = reconcile(PLAN, begun(), "new", "new", 1)
    assert effects == ()
    assert state is not None
    assert (state.phase, state.reason) == (Phase.PROMOTED, "InForce")


def asked(decisions: int = 0, long: int = 0, skipped: int = 0) -> Observed:
    """Return what an audit counts of which the candidate gave up ``long`` decisions."""
    return Observed(Counts(decisions), Counts(decisions, long=long, skipped=skipped))


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (asked(200, long=300), "the candidate takes too long for 300 of 500 decisions"),
        (asked(51, long=449), "the candidate takes too long for 449 of 500 decisions"),
        (asked(skipped=500), "none of 500 decisions could be compared"),
    ],
)
def test_an_audit_that_says_too_little_ends_in_an_abort(observed: Observed, message: str) -> None:
    """It would otherwise never end, or let pass what was not tried; with what was counted."""
    state, _ = driven(PLAN, begun(), 9)
    state, effects = advance(PLAN, state, observed, state.seen)
    assert effects == (), "its time is not over"
    state, effects = driven(PLAN, state, 1)
    counts, told = observed.candidate, f"{message}: begin with a canary"
    numbers = counts.decisions, counts.long, counts.skipped
    names = (f"candidate.{name}" for name in ("decisions", "long", "skipped"))
    figures = dict(zip(names, map(float, numbers), strict=True))
    assert effects == [Abort("NotCompared", told, figures)]
    assert (state.phase, state.message) == (Phase.ABORTED, told)


@pytest.mark.parametrize(
    ("observed", "begins"),
    [
        (asked(250, long=250), [TENTH]),
        (asked(499, long=0, skipped=10_000), []),
        (asked(1, long=0, skipped=10_000), []),
        (asked(0, long=0, skipped=499), []),
        (asked(249, long=250, skipped=10_000), []),
        (asked(500, long=0, skipped=10_000), [TENTH]),
    ],
)
def test_an_audit_that_compares_some_goes_on(observed: Observed, begins: list[Effect]) -> None:
    """Decisions that are given up count towards the step; those that none compares do not."""
    state, _ = driven(PLAN, begun(), 10)
    assert advance(PLAN, state, observed, state.seen)[1] == tuple(begins)


@pytest.mark.parametrize(
    ("decisions", "long", "ends"), [(0, 19, False), (2, 18, False), (2, 20, True)]
)
def test_a_candidate_that_takes_long_nearly_always_is_given_up_soon(
    decisions: int, long: int, ends: bool
) -> None:
    """Few decisions show it, and each costs the share of many."""
    _, effects = advance(PLAN, begun(), asked(decisions, long=long), MINUTE)
    assert [type(effect) for effect in effects] == [Abort] * ends


def test_a_short_audit_waits_for_more_than_one_pod_that_no_candidate_decides() -> None:
    """The next pod may be one that is compared."""
    plan = replace(PLAN, steps=(Step(), *PLAN.steps[1:]))
    state, effects = advance(plan, begun(plan), asked(skipped=19), MINUTE)
    assert effects == ()
    (effect,) = advance(plan, state, asked(skipped=1), MINUTE)[1]
    assert isinstance(effect, Abort)


def test_a_rule_reads_decisions_that_were_given_up() -> None:
    """It speaks before any decision was made."""
    rule = AbortRule(
        "candidate.long > 9",
        "slow rules",
        lambda _, candidate: Verdict(candidate.long > 9),
        reads=("candidate.long",),
    )
    plan = replace(PLAN, abort_when=(rule,))
    state, _ = advance(plan, begun(plan), asked(long=9), MINUTE)
    state, (effect,) = advance(plan, state, asked(long=1), MINUTE)
    assert effect == Abort(
        "AbortRuleHolds",
        "slow rules (candidate.long 10) after 10 decisions",
        {"candidate.long": 10},
    )
