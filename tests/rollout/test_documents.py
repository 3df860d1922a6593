"""Rollouts as objects: plan, status and state, and requests that are about one candidate."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.profiles.models.rollout_status import RolloutStatus
from policy_sched.rollout import (
    ANNOTATIONS,
    Example,
    State,
    StateError,
    advance,
    answered_by,
    plan_of_object,
    promote,
    reconcile,
    report_of_object,
    requested,
    rollout_report,
    state_of_object,
    status_of,
)
from tests.rollout.plans import MINUTE, counted

OBJECT: dict[str, Any] = {
    "apiVersion": "policysched.dev/v1alpha1",
    "kind": "Rollout",
    "metadata": {
        "name": "careful",
        "uid": "11-22",
        "resourceVersion": "7",
        "generation": 2,
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "steps": [{"canary": {"percent": 10, "for": "20m"}}],
        "abortWhen": [{"expression": "candidate.errors > 0"}],
    },
}


def begun() -> tuple[Any, State]:
    """Return the plan of the object, and the state of its rollout."""
    plan, problems = plan_of_object(OBJECT)
    assert problems == []
    assert plan is not None
    state, _ = reconcile(plan, None, "old", "new", 5 * MINUTE)
    assert state is not None
    state, _ = advance(plan, state, counted(30, of_stable=200), 6 * MINUTE)
    return plan, state


def test_an_object_of_the_api_has_a_plan() -> None:
    """What the API server adds to metadata does not matter; the uid is the identity."""
    plan, _ = begun()
    assert (plan.name, plan.identity, plan.steps[0].percent) == ("careful", "11-22", 10)


def test_a_broken_object_has_its_problems() -> None:
    """An object that came in without a check says what is wrong, with a place."""
    spec = {**OBJECT["spec"], "abortWhen": [{"expression": "candidate.erors > 0"}]}
    plan, problems = plan_of_object({**OBJECT, "spec": spec})
    assert plan is None
    assert [(problem.file, problem.code) for problem in problems] == [
        ("rollout.policysched.dev/careful", "PS102")
    ]


def test_a_status_has_all_that_a_new_leader_needs() -> None:
    """The state in a status is the state, and the status is of the form that the schema states."""
    plan, state = begun()
    examples = [Example("shop/web", "moved", "n1", "n2", 9)]
    report = rollout_report(plan, state, examples)
    status = status_of(report, state, 2)
    RolloutStatus.model_validate(status, strict=False)
    assert state_of_object({**OBJECT, "status": status}) == state
    assert report_of_object({**OBJECT, "status": status}) == report
    assert (status["phase"], status["step"]) == ("Progressing", "1/1")
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Promoted": "False",
        "Aborted": "False",
    }
    ended, _ = promote(state, 7 * MINUTE)
    conditions = status_of(rollout_report(plan, ended), ended, 2)["conditions"]
    assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
        ("Promoted", "True", "Requested"),
        ("Aborted", "False", "Requested"),
    ]


def test_an_object_without_a_state_has_not_begun() -> None:
    """It says so, and a state that was edited is refused with the reason."""
    assert state_of_object(OBJECT) is None
    with pytest.raises(StateError, match="careful has not begun"):
        report_of_object(OBJECT)
    with pytest.raises(StateError, match="cannot be read"):
        state_of_object({**OBJECT, "status": {"state": {"step": "x"}}})


def test_a_request_is_about_one_candidate() -> None:
    """One that names another candidate, or comes after the end, is none; an abort goes first."""
    _, state = begun()
    promotion = {ANNOTATIONS["promote"]: "new"}
    assert requested(promotion, state) == "promote"
    assert requested({**promotion, ANNOTATIONS["abort"]: "new"}, state) == "abort"
    assert requested({ANNOTATIONS["promote"]: "old"}, state) is None
    assert requested({}, state) is None
    both = {**promotion, ANNOTATIONS["abort"]: "new"}
    assert requested(both, state, {"abort": "new"}) == "promote"
    assert requested(both, state, {"abort": "new", "promote": "new"}) is None
    again = {ANNOTATIONS["abort"]: "new/2"}
    assert requested(again, state, {"abort": "new"}) == "abort"
    assert answered_by({**again, ANNOTATIONS["promote"]: "old"}, state) == {"promote": "old"}
    ended, _ = promote(state, 7 * MINUTE)
    assert requested(promotion, ended) is None
