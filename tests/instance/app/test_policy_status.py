"""What the status of an object says, for each thing that can become of it."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.instance.app.policy_status import (
    MOST_PROBLEMS,
    Judgement,
    counts_of,
    judgements,
    status_of,
)
from policy_sched.profiles.load import PolicyObject
from policy_sched.profiles.load.policy_object import LONGEST
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore
from tests.profiles.load.test_policy_object import policy_object
from tests.profiles.reload.test_objects import FILTER, JOINS, WRONG, config

Plain = dict[str, Any]
NOTHING = {"podsMatched": 0, "nodesRejected": 0, "errors": 0}


def judged(
    before: tuple[PolicyObject, ...], after: tuple[PolicyObject, ...], **files: Any
) -> dict[str, Judgement]:
    """Return the judgements after a reload, from a set with some objects to one with others."""
    store = PolicyStore(PolicyFiles(objects=before, **files), lambda: 0)
    compilation = PolicyFiles(objects=after, **files).compile()
    reload = store.commit(compilation)
    kept = after if not compilation.failed else before
    by_name = {given.name: given for given in kept}
    return judgements(after, by_name, reload, compilation.paths, {})


def words(judgement: Judgement) -> tuple[str, ...]:
    """Return status and reason of both conditions."""
    accepted, in_force = judgement.accepted, judgement.in_force
    return accepted.status, accepted.reason, in_force.status, in_force.reason


def test_a_policy_in_force_names_its_profiles_and_the_hash() -> None:
    """Which set decides can be compared with metrics and the log."""
    given = policy_object("mine", filter=FILTER, **JOINS)
    said = judged((), (given,))["mine"]
    assert words(said) == ("True", "Accepted", "True", "InForce")
    assert said.in_force.message == "decides in profile default-scheduler"
    assert said.profiles == ("default-scheduler",)
    assert len(said.hash) == 64


def test_an_audited_policy_is_in_force_and_decides_nothing() -> None:
    """The mode is told where people look."""
    given = policy_object("mine", filter=FILTER, enforcement="Audit", **JOINS)
    said = judged((), (given,))["mine"]
    assert words(said) == ("True", "Accepted", "True", "Audited")


def test_a_broken_policy_has_its_problems_and_the_others_say_what_keeps_them_out() -> None:
    """One that came together with it is accepted, and waits; one of before goes on."""
    old = policy_object("old", filter=FILTER, **JOINS)
    new = policy_object("new", filter=FILTER, **JOINS)
    bad = policy_object("bad", filter=WRONG)
    said = judged((old,), (old, new, bad))
    assert words(said["bad"]) == ("False", "PS102", "False", "NotAccepted")
    text = "spec.filter[0].expression, line 14: Node has no field 'nmae'; did you mean 'name'?"
    assert said["bad"].accepted.message == text
    (problem,) = said["bad"].problems
    assert (problem.path, problem.line) == ("spec.filter[0].expression", 14)
    assert words(said["new"]) == ("True", "Accepted", "False", "SetRefused")
    assert "policy.policysched.dev/bad:14" in said["new"].in_force.message
    assert words(said["old"]) == ("True", "Accepted", "True", "InForce")


def test_an_older_version_stays_in_force_and_says_so() -> None:
    """A change that is refused leaves what was there."""
    before = policy_object("mine", filter=FILTER, **JOINS)
    after = policy_object("mine", filter=WRONG, **JOINS)
    said = judged((before,), (after,))["mine"]
    assert words(said) == ("False", "PS102", "False", "OlderInForce")
    assert said.in_force.message.startswith("an older version of the policy is in force in profile")


def test_a_policy_that_nobody_enables_says_how() -> None:
    """Neither a configuration nor the policy itself names a profile, or one that is not there."""
    said = judged((), (policy_object("mine", filter=FILTER),))["mine"]
    assert words(said) == ("True", "Accepted", "False", "NotEnabled")
    assert said.in_force.message == "no configuration names it, and it names no profile"
    said = judged((), (policy_object("mine", filter=FILTER, profiles=["gpu"]),))["mine"]
    assert words(said) == ("True", "Accepted", "False", "NotEnabled")
    assert 'spec.profiles[0], line 16: spec.profiles[0]: Not found: "gpu"' in said.in_force.message


def test_the_set_says_what_a_deleted_object_did_to_it() -> None:
    """A configuration that names a policy which is gone keeps the others as they are."""
    mine, other = (
        policy_object("mine", filter=FILTER),
        policy_object("other", filter=FILTER, **JOINS),
    )
    said = judged((mine,), (other,), config=config("mine"))["other"]
    assert words(said) == ("True", "Accepted", "False", "SetRefused")
    assert 'plugin "mine" does not exist' in said.in_force.message


def test_a_refused_set_changes_nothing_for_what_is_as_before() -> None:
    """One broken policy of a thousand is one status to write, whatever is wrong with it."""
    idle, mine = policy_object("idle", filter=FILTER), policy_object("mine", filter=FILTER, **JOINS)
    store = PolicyStore(PolicyFiles(), lambda: 0)
    compilation = PolicyFiles(objects=(idle, mine)).compile()
    kept = {"idle": idle, "mine": mine}
    first = judgements((idle, mine), kept, store.commit(compilation), compilation.paths, {})
    bad = policy_object("bad", filter=WRONG)
    compilation = PolicyFiles(objects=(bad, idle, mine)).compile()
    again = judgements((bad, idle, mine), kept, store.commit(compilation), {}, first)
    assert (again["idle"], again["mine"]) == (first["idle"], first["mine"])
    assert words(again["bad"])[0] == "False"


def test_what_no_compiler_can_judge_is_unknown() -> None:
    """The limits of the compiler name no object."""
    store = PolicyStore(PolicyFiles(), lambda: 0)
    problem = PolicyFiles(config("none")).compile().problems[0]
    costly = Compilation((), (type(problem)("f", 1, 1, "PS503", "it takes too long"),))
    given = policy_object("mine", filter=FILTER)
    said = judgements((given,), {}, store.commit(costly), {}, {})["mine"]
    assert words(said) == ("Unknown", "PS503", "False", "NotAccepted")


def test_messages_and_problems_are_bounded() -> None:
    """A policy with hundreds of long problems has a status of some 100 KiB at most."""
    rules = [{"expression": f"node.{'x' * 300}{i}"} for i in range(150)]
    said = judged((), (policy_object("mine", filter=rules),))["mine"]
    assert len(said.problems) == MOST_PROBLEMS
    assert len(said.accepted.message) == LONGEST


def test_a_condition_that_holds_keeps_its_time() -> None:
    """A restart, or another leader, writes nothing anew."""
    said = judged((), (policy_object("mine", filter=FILTER, **JOINS),))["mine"]
    first = status_of(said, None, NOTHING, "2026-01-01T00:00:00Z")
    again = status_of(said, first, NOTHING, "2026-02-02T00:00:00Z")
    assert again == first
    broken = judged((), (policy_object("mine", filter=WRONG),))["mine"]
    later = status_of(broken, first, NOTHING, "2026-02-02T00:00:00Z")
    assert [c["lastTransitionTime"][:7] for c in later["conditions"]] == ["2026-02", "2026-02"]


@pytest.mark.parametrize("shown", [None, 5, {}, {"counts": 7}, {"counts": {"errors": "x"}}])
def test_a_status_that_somebody_else_wrote_is_written_anew(shown: Any) -> None:
    """Whatever is there: it is ours."""
    assert counts_of(shown) == NOTHING
    said = judged((), (policy_object("mine", filter=FILTER),))["mine"]
    odd = shown if not isinstance(shown, dict) else {**shown, "conditions": [5, {"type": []}]}
    if isinstance(odd, dict):
        odd["conditions"] = [5]
    assert len(status_of(said, odd, NOTHING, "t")["conditions"]) == 2
