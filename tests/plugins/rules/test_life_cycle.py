"""The sections after the choice of a node, and hints about events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.runtime.activation import Activation, Event
from policy_sched.language.sections import CompiledPolicy
from policy_sched.language.values.limits import RuleError
from policy_sched.language.values.records import NodeFacts
from policy_sched.model.pod_group import GroupCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.plugins.rules.life_cycle import BoundLifeCycle, StepOutcome
from policy_sched.testing import make_node, make_pod
from tests.language.harness import NOTHING, cache_of, compiles, cycle_of, names_of
from tests.language.oracle_policy import PolicyOracle
from tests.language.oracle_values import OracleError
from tests.language.oracle_world import World
from tests.language.rule_files import policy
from tests.language.strategies import PARAMS, rules, worlds

Situation = tuple[World, PodInfo]
SECOND = 1_000_000_000


def compiled(**spec: Any) -> CompiledPolicy:
    """Return a policy that compiles."""
    checked, problems = check_policy(policy(spec))
    assert checked is not None, problems
    found, problems = compile_policy(checked)
    assert found is not None, problems
    return found


def life(world: World, **spec: Any) -> BoundLifeCycle:
    """Return a policy's life cycle over a world."""
    return bind(compiled(**spec), cache_of(world).nodes).life


def hint_of(world: World, hint: str, **spec: Any) -> Callable[[PodInfo, Activation], bool]:
    """Return a policy's hint over a world."""
    policy = compiled(requeue={"hint": hint}, **spec)
    assert policy.life.hint is not None
    return bind(policy, cache_of(world).nodes).life.hint(policy.life.hint)


def expected(world: World, pod: PodInfo, row: int, spec: dict[str, Any]) -> bool | None:
    """Return the oracle's result of a reserve section on a row; None for an error."""
    checked, _ = check_policy(policy(spec))
    assert checked is not None
    assert checked.reserve is not None
    try:
        judge = PolicyOracle(checked, names_of(world, pod, row))
        return bool(judge.value(checked.reserve.expression.core))
    except OracleError:
        return None


@pytest.mark.parametrize("on_error", ["Reject", "Allow", "Abort", None])
@given(text=rules("reserve", 2), situation=worlds())
def test_a_section_is_evaluated_for_one_row(
    text: str, on_error: str | None, situation: Situation
) -> None:
    """The rule holds if it holds for the oracle; an error rejects, allows or ends the attempt."""
    assume(compiles(text, "reserve", PARAMS))
    world, pod = situation
    spec = {
        "params": PARAMS,
        "reserve": {"expression": text, "message": "no", "onError": on_error},
    }
    section = life(world, **spec).reserve
    assert section is not None
    for row in range(len(world.nodes)):
        wanted = expected(world, pod, row, spec)
        if wanted is None and on_error in ("Abort", None):
            with pytest.raises(RuleError, match=r"^rule test\.reserve: "):
                section.evaluate(pod, cycle_of(world), row)
            continue
        answer = section.evaluate(pod, cycle_of(world), row)
        assert answer.holds is (on_error == "Allow" if wanted is None else wanted)
        assert section.holds(pod, cycle_of(world), row) is answer.holds
        if wanted is False:
            assert answer == StepOutcome(False, "no")


@given(text=rules("requeue.hint", 2), situation=worlds())
def test_a_node_of_an_event_is_read_as_the_node_of_a_rule(text: str, situation: Situation) -> None:
    """A rule's value for a node's row is a hint's value for the same node in an event."""
    hint = f"event.newNode.optMap(node, {text}).orValue(false)"
    assume(compiles(hint, "requeue.hint", PARAMS))
    world, pod = situation
    table = cache_of(world).nodes
    requested = hint_of(world, hint, params=PARAMS)
    spec = {"params": PARAMS, "reserve": text}
    for row, node in enumerate(world.nodes):
        event = Event("Node", "Update", new_node=NodeFacts(node, table))
        cycle = Activation(now=world.now, event=event)
        wanted = expected(world, pod, row, spec)
        if wanted is None:
            with pytest.raises(RuleError, match=r"^requeue.hint: "):
                requested(pod, cycle)
        else:
            assert requested(pod, cycle) is wanted


POD = PodInfo.of(make_pod("p", labels={"app": "web"}))
GANG = {
    "allow": "podGroup.scheduled + podGroup.waiting + 1 >= podGroup.minCount",
    "timeout": "90s",
    "messageExpression": '"waiting for " + podGroup.name',
}


class TestPermit:
    """Whether a pod may be bound, and how long it waits."""

    @pytest.mark.parametrize(
        ("waiting", "answer"),
        [(1, StepOutcome(False, "waiting for g", 90 * SECOND)), (2, StepOutcome(True))],
    )
    def test_a_pod_of_a_gang_waits_for_the_timeout_of_the_policy(
        self, waiting: int, answer: StepOutcome
    ) -> None:
        """A pod waits for the timeout of the policy until the group is complete."""
        section = life(NOTHING, permit=GANG).permit
        assert section is not None
        group = GroupCounts("g", 3, 3, 0, waiting)
        assert section.evaluate(POD, Activation(pod_group=group), 0) == answer

    def test_without_a_timeout_no_pod_waits(self) -> None:
        """The pod is rejected with the message, or with the rule's name if there is none."""
        section = life(NOTHING, permit={"allow": "false"}).permit
        assert section is not None
        assert section.evaluate(POD, Activation(), 0) == StepOutcome(False, "rule test.permit")

    def test_a_negative_time_out_is_none(self) -> None:
        """A timeout cannot be negative."""
        section = life(NOTHING, permit={"allow": "false", "timeout": 'duration("-1s")'}).permit
        assert section is not None
        assert section.evaluate(POD, Activation(), 0).wait == 0

    def test_an_error_in_the_time_out(self) -> None:
        """It counts as an error of the section."""
        permit = {"allow": "false", "timeout": 'duration(pod.labels["wait"])', "onError": "Allow"}
        section = life(NOTHING, permit=permit).permit
        assert section is not None
        assert section.evaluate(POD, Activation(), 0).holds


def test_the_note_of_an_event() -> None:
    """postBind is a text; an ignored error means no event."""
    world = World([make_node("n1")], [])
    section = life(world, postBind='"on " + node.name').post_bind
    assert section is not None
    assert section.text(POD, Activation(), 0) == "on n1"
    rule = {"expression": 'pod.labels["nothing"]', "onError": "Ignore"}
    ignoring = life(world, postBind=rule).post_bind
    assert ignoring is not None
    assert ignoring.text(POD, Activation(), 0) == ""


def test_hints_read_pods_and_names_of_events() -> None:
    """Kind and action are text; an object that the event lacks is absent."""
    hint = (
        'event.kind == "Pod" && event.action == "Delete" && !event.newPod.hasValue()'
        ' && event.oldPod.optMap(p, p.labels[?"app"] == optional.of("web")).orValue(false)'
    )
    requested = hint_of(NOTHING, hint)
    assert requested(POD, Activation(event=Event("Pod", "Delete", old_pod=POD)))
    assert not requested(POD, Activation(event=Event("Pod", "Add", new_pod=POD)))
    assert not requested(POD, Activation(event=Event("Pod", "Delete")))


@pytest.mark.parametrize(
    ("every", "nanoseconds"),
    [
        ("90s", 90 * SECOND),
        ("duration(params.often)", 60 * SECOND),
        ("variables.twice", 2 * SECOND),
        ('duration(string(lists.range(300).map(n, n * 2).size()) + "s")', 300 * SECOND),
    ],
)
def test_how_often_a_pod_is_tried(every: str, nanoseconds: int) -> None:
    """It is known when the policy is loaded: a duration, a parameter or a variable of these."""
    spec = {
        "params": {"often": "1m"},
        "variables": [{"name": "twice", "expression": 'duration("1s") + duration("1s")'}],
        "requeue": {"every": every},
    }
    assert compiled(**spec).life.every == nanoseconds


@pytest.mark.parametrize(
    "every",
    [
        "0s",
        'duration("-1m")',
        'duration(string(lists.range(300).size() * -1) + "s")',
        'duration(string(1 / (lists.range(300).size() - 300)) + "s")',
        'duration(["soon"][0])',
    ],
)
def test_a_pod_is_not_tried_all_the_time(every: str) -> None:
    """A duration of 0, or one that is missing, is rejected."""
    checked, _ = check_policy(policy({"requeue": {"every": every}}))
    assert checked is not None
    _, problems = compile_policy(checked)
    assert [problem.code for problem in problems] == ["PS012"]


def test_what_decides_is_known() -> None:
    """Sections that can reject a pod report what they read, matchConditions included."""
    reads = compiled(
        matchConditions=['pod.labels["app"] == "web"'],
        reserve='node.free["cpu"].sign() >= 0',
        permit=GANG,
        postBind='"on " + node.name',
    ).veto_reads
    assert reads.pod == {("labels", "app"), ("podGroup",)}
    assert reads.node == {"free"}
    assert not reads.clock


@given(st.sampled_from(["true", "false"]))
def test_binding_is_a_choice(text: str) -> None:
    """A bind section decides whether this policy binds the pod."""
    section = life(NOTHING, bind=text).bind
    assert section is not None
    assert section.holds(POD, Activation(), 0) is (text == "true")
