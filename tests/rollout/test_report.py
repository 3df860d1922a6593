"""Reports of rollouts: what people and programs read."""

from __future__ import annotations

import json

from policy_sched.report import json_text
from policy_sched.rollout import (
    EXAMPLES,
    Example,
    Phase,
    State,
    advance,
    measure_text,
    promote,
    reconcile,
    rollout_report,
    seconds_text,
)
from tests.rollout.plans import DIVIDED, MINUTE, PLAN, counted

START = 1_764_000_000 * 10**9
FIGURES = "candidate.unschedulable 0 %, stable.unschedulable 0 %"
STABLE, CANDIDATE = "4f5b0a77c2d1e0aa", "9c1e55d0f3a2b1bb"


def canary(minutes: int = 12) -> State:
    """Return a state in its second step, for some minutes."""
    state, _ = reconcile(PLAN, None, STABLE, CANDIDATE, START)
    assert state is not None
    for _ in range(10):
        state, _ = advance(PLAN, state, counted(50), state.seen + MINUTE)
    for _ in range(minutes):
        observed = counted(20, of_stable=180)
        observed.candidate.waited(0.25)
        state, _ = advance(PLAN, state, observed, state.seen + MINUTE)
    return state


def test_a_figure_without_a_sample_says_so() -> None:
    """The rule holds not, as there is nothing to compare."""
    state, _ = reconcile(PLAN, None, STABLE, CANDIDATE, START)
    assert state is not None
    state, _ = advance(PLAN, state, counted(5, of_stable=0), START + MINUTE)
    report = rollout_report(PLAN, state).abort_when[0]
    assert (report.verdict, report.note) == ("does not hold", "no sample of stable.unschedulable")


def test_an_audit_shows_what_it_measures() -> None:
    """How long pods waited is measured in a canary alone, what would have moved in an audit."""
    state, _ = reconcile(PLAN, None, STABLE, CANDIDATE, START)
    assert state is not None
    names = [name for name, *_ in rollout_report(PLAN, state).measured()]
    assert names[4:] == ["victims", "same", "moved", "tie", "schedulable", "long", "skipped"]
    names = [name for name, *_ in rollout_report(PLAN, canary()).measured()]
    assert names[4:] == ["victims", "waitingP50", "waitingP99", "decidingP50", "decidingP99"]


def test_what_no_step_tries_is_shown() -> None:
    """After the message, with its place."""
    lines = list(rollout_report(PLAN, canary(), untried=["a.yaml:1:2: evict"]).text_lines())
    assert lines[6] == "Untried:    a.yaml:1:2: evict"


def test_the_text_says_where_it_is() -> None:
    """Steps, both sides' measures, rules with their figures, and the last differences."""
    differences = [Example(f"shop/web-{i}", "moved", "n1", "n2") for i in range(12)]
    lines = list(rollout_report(PLAN, canary(), differences).text_lines())
    assert "\n".join(lines[:22]) == (
        "Rollout:    careful\n"
        "Phase:      Progressing\n"
        "Step:       2 of 3, for 12m\n"
        "Since:      2025-11-24T16:10:00Z\n"
        "Stable:     4f5b0a77c2d1\n"
        "Candidate:  9c1e55d0f3a2\n"
        "\n"
        "STEP                         AT LEAST   DECISIONS   STATUS\n"
        "1. audit                     10m              500   done\n"
        "2. canary of 10 % by Owner   20m                1   current\n"
        "3. canary of 50 % by Owner   20m              100   next\n"
        "\n"
        "MEASURE         STABLE   CANDIDATE\n"
        "decisions        2,160         240\n"
        "scheduled        2,160         240\n"
        "unschedulable      0 %         0 %\n"
        "errors               0           0\n"
        "victims              0           0\n"
        "waitingP50          0s       240ms\n"
        "waitingP99          0s       240ms\n"
        "decidingP50         0s          0s\n"
        "decidingP99         0s          0s"
    )
    assert lines[23:26] == [
        "ABORT WHEN                                              NOW             FIGURES",
        f"{PLAN.abort_when[0].expression}   does not hold   {FIGURES}",
        "",
    ]
    assert lines[26:28] == [
        "DIFFERENCE   POD           STABLE   CANDIDATE",
        "moved        shop/web-2    n1       n2",
    ]
    assert len(lines) == 27 + EXAMPLES


def test_programs_get_the_same_numbers() -> None:
    """The document has the measures by their names, and is JSON."""
    document = json.loads(json_text(rollout_report(PLAN, canary()).document()))
    assert document["measures"]["candidate"]["decisions"] == 240
    assert document["steps"][1] == {
        "step": "canary of 10 % by Owner",
        "status": "current",
        "seconds": 1200.0,
        "decisions": 1,
    }
    assert document["abortWhen"][0]["verdict"] == "does not hold"
    assert document["elapsed"] == 720.0


def test_a_rule_that_fails_or_waits_says_so() -> None:
    """Beside its figures there is why it has no value, or how many decisions it waits for."""
    state, _ = reconcile(PLAN, None, STABLE, CANDIDATE, START)
    assert state is not None
    assert rollout_report(PLAN, state).abort_when[0].verdict == "waits"
    plan = type(PLAN)("careful", "careful", PLAN.steps, (DIVIDED,))
    state, _ = advance(plan, state, counted(5), START + MINUTE)
    report = rollout_report(plan, state)
    assert (report.abort_when[0].verdict, report.abort_when[0].note) == (
        "fails",
        "division by zero",
    )
    assert report.message == "candidate.victims / stable.victims > 2: division by zero"


def test_an_end_has_its_reason() -> None:
    """Of a rollout that ended there is the reason, and all steps are done if it was promoted."""
    state, _ = promote(canary(), START + 60 * MINUTE, "anna")
    report = rollout_report(PLAN, state)
    assert (report.phase, report.reason) == (Phase.PROMOTED, "Requested")
    assert report.message == "promoted in step 2 by anna"
    assert [step.status for step in report.steps] == ["done", "done", "done"]


def test_numbers_are_shown_with_their_units() -> None:
    """Counts are whole, times have a unit, and shares are percents."""
    assert measure_text("decisions", 12345) == "12,345"
    assert measure_text("waitingP99", 0.01234) == "12.3ms"
    assert measure_text("waitingP99", 61.5) == "61.5s"
    assert measure_text("unschedulable", 0.0215) == "2.15 %"
    assert [seconds_text(number) for number in (0, 59.9, 3600, 3661)] == ["", "59s", "1h", "1h1m1s"]
