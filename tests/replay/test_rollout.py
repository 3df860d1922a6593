"""Rollouts on recorded traffic: steps in virtual time, and what aborts them."""

from __future__ import annotations

from functools import lru_cache

import pytest
from msgspec.structs import replace

from policy_sched.errors import PolicySchedError
from policy_sched.model.meta import SECOND
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.recording import Event
from policy_sched.replay import RolloutReplay, replay_rollout
from policy_sched.report import json_text
from policy_sched.rollout import AbortRule, Measures, Plan, Step, Verdict
from policy_sched.simulate import Traffic, traffic_of
from tests.replay.recorded import CONFIG, SECONDS
from tests.replay.test_decisions import packing_first, plans_of

PLAN = Plan(
    "quick",
    "quick",
    (
        Step(least=30 * SECOND, decisions=20),
        Step(30, "Owner", 60 * SECOND),
        Step(60, "Owner", 60 * SECOND),
    ),
)


def moved(_stable: Measures, candidate: Measures) -> Verdict:
    """Hold once pods move."""
    return Verdict(candidate.moved > 5)


def tried(_stable: Measures, candidate: Measures) -> Verdict:
    """Hold in a canary alone: nothing is compared there."""
    return Verdict(candidate.decisions > 5 and not candidate.same + candidate.moved + candidate.tie)


MOVED = AbortRule("candidate.moved > 5", "pods move", moved, reads=("candidate.moved",))
TRIED = AbortRule("candidate.decisions > 5", "in a canary", tried)


@lru_cache
def candidate(*, packs: bool) -> Compilation:
    """Return the load's configuration, or one that packs."""
    return PolicyFiles(packing_first() if packs else CONFIG, ()).compile()


def rolled(events: list[Event], plan: Plan, *, packs: bool = True) -> RolloutReplay:
    """Roll a configuration that packs out, or the one that decided."""
    start = events[0].time
    traffic: Traffic = traffic_of(events, start, start + SECONDS * SECOND)
    return replay_rollout(traffic, plans_of(), candidate(packs=packs), plan)


def test_a_rollout_goes_through_its_steps_in_virtual_time(events: list[Event]) -> None:
    """Each step begins when its time is up, and the candidate decides some pods of its own."""
    run = rolled(events, PLAN)
    assert run.events == (
        (0, "step 1: audit"),
        (30 * SECOND, "step 2: canary of 30 % by Owner"),
        (90 * SECOND, "step 3: canary of 60 % by Owner"),
        (150 * SECOND, "promoted"),
    )
    assert run.lead() == "Promoted after 2m30s: every step has passed"
    sides = run.report.measures
    assert sides["candidate"].decisions > sides["stable"].decisions > 0
    assert not run.aborted


def test_a_rule_says_when_the_traffic_would_have_stopped_it(events: list[Event]) -> None:
    """In an audit what differs counts, with examples; nothing is decided after the abort."""
    run = rolled(events, replace(PLAN, abort_when=(MOVED,)))
    assert run.aborted
    assert run.report.figures == {"candidate.moved": 6}
    assert "in step 1 (audit): pods move (candidate.moved 6)" in run.lead()
    assert {each.result for each in run.report.differences} >= {"moved"}
    assert run.decided < rolled(events, PLAN).decided


def test_a_canary_has_counts_of_its_own(events: list[Event]) -> None:
    """A rule over what the candidate itself decided aborts in the canary."""
    run = rolled(events, replace(PLAN, abort_when=(TRIED,)))
    assert (run.aborted, run.report.step) == (True, 2)


def test_the_traffic_may_end_before_the_rollout(events: list[Event]) -> None:
    """Then it says in which step it is."""
    plan = replace(PLAN, steps=(PLAN.steps[0], Step(30, "Owner", 3600 * SECOND)))
    run = rolled(events, plan)
    assert run.lead() == "Still in step 2 of 2 at the end, after 2m40s"
    assert run.report.phase == "Progressing"


def test_a_rollout_is_the_same_twice(events: list[Event]) -> None:
    """The same traffic gives the same bytes."""
    plan = replace(PLAN, abort_when=(MOVED, TRIED))
    printed = {json_text(rolled(events, plan).document()) for _ in range(2)}
    assert len(printed) == 1


def test_what_decides_alike_is_no_candidate(events: list[Event]) -> None:
    """There is nothing to roll out."""
    with pytest.raises(PolicySchedError, match="decide alike"):
        rolled(events, PLAN, packs=False)
