"""The preemption section: vectorized, one by one and by the oracle the result is the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from msgspec import structs

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.language.check.definitions import Checked
from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import PreemptionRules
from policy_sched.language.sections import Choice, PreemptionChoices
from policy_sched.language.values.limits import RuleError
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.policy_section import BoundPreemption, CandidateNodes
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.finite import chooser, numbers
from tests.language.harness import cache_of, names_of
from tests.language.oracle_policy import PolicyOracle
from tests.language.oracle_values import OracleError
from tests.language.oracle_world import World
from tests.language.rule_files import policy
from tests.language.strategies import PARAMS, Scope, worlds, write

Situation = tuple[World, PodInfo]
Keys = list[Any] | None

#: Health checks of Hypothesis that these tests do not need.
ELSEWHERE: Final = ("domain", "cycle.", "queue.", "podGroup.")
OF_PODS: Final = (*ELSEWHERE, "node.", "(node)", "(node,", "cluster.", "now")
#: Expressions over all victims, with holes for expressions over one.
OVER_VICTIMS: Final = (
    "pdbViolations * {int}",
    "victims.size() + pdbViolations",
    "victims.map(v, {int}).max()",
    "victims.map(v, {int}).min()",
    "victims.sum(v, {int})",
    "victims.filter(v, {bool}).size()",
    "victims.filter(v, {bool}).map(v, {int}).max()",
    "victims.filter(v, v.priority == victims.map(w, w.priority).max()).sum(v, {int})",
    "victims.exists(v, {bool}) ? {int} : pdbViolations",
    "victims.all(v, {bool})",
    "victims.exists_one(v, {bool})",
    "victims.exists(v, v.priority > victims.filter(w, w.name != v.name).size())",
    "victims[0].priority",
    "victims.map(v, {string}).join(',')",
    "victims.sum(v, {double})",
)


@st.composite
def rules(draw: st.DrawFn, kinds: Sequence[str], hidden: tuple[str, ...]) -> str:
    """Draw an expression about ``victim``."""
    choose = chooser(draw)
    scope = Scope(hidden, 2, root=False, variables=(("victim", "Pod"),))
    return write(choose, choose(kinds), scope)


@st.composite
def node_keys(draw: st.DrawFn) -> str:
    """Draw an expression over ``victims``."""
    choose = chooser(draw)
    text = choose(OVER_VICTIMS)
    shared = Scope(ELSEWHERE, 1, root=False)
    inner = replace(shared, variables=(("v", "Pod"),)) if "(v," in text else shared
    for kind in ("int", "bool", "string", "double"):
        while "{" + kind + "}" in text:
            text = text.replace("{" + kind + "}", f"({write(choose, kind, inner)})", 1)
    return text


def sections(**section: Any) -> tuple[PreemptionRules[Checked], PreemptionChoices, Any] | None:
    """Return a checked and compiled preemption section, and its policy; None if rejected."""
    spec = {"params": PARAMS, "preemption": {"eligible": "true", "victim": "true", **section}}
    checked, _ = check_policy(policy(spec))
    if checked is None or checked.preemption is None:
        return None
    compiled, _ = compile_policy(checked)
    if compiled is None or compiled.preemption is None:
        return None
    return checked.preemption, compiled.preemption, checked


def one_by_one(choices: PreemptionChoices) -> PreemptionChoices:
    """Return the functions without their vectorized programs."""

    def bare(choice: Choice) -> Choice:
        return structs.replace(choice, victims=None)

    return PreemptionChoices(
        bare(choices.eligible),
        bare(choices.victim),
        tuple(map(bare, choices.victim_order)),
        tuple(map(bare, choices.node_order)),
    )


def ways(choices: PreemptionChoices, cache: Cache) -> list[BoundPreemption]:
    """Return the section over a cluster, vectorized and one by one."""
    both = (choices, one_by_one(choices))
    return [BoundPreemption(one, cache.nodes, cache.pods) for one in both]


def oracle_value(
    checked: Any, world: World, pod: PodInfo, row: int, tree: Checked, **names: Any
) -> Any:
    """Return the oracle's value; an OracleError in its place, also if it is not a number."""
    judge = PolicyOracle(checked, {**names_of(world, pod, row), **names})
    try:
        value = judge.value(tree.core)
    except OracleError as error:
        return error
    value = getattr(value, "units", value)
    return OracleError("not_finite") if isinstance(value, float) and math.isnan(value) else value


def attempt(step: Callable[[], np.ndarray[Any, Any]]) -> Keys:
    """Return the result of a step as a list; None if a rule failed."""
    try:
        return list(step().tolist())
    except RuleError:
        return None


def agree(keys: Keys, expected: Sequence[Any], *, descending: bool = False) -> bool:
    """Return whether keys are in the order of the values, and fail if one of these failed."""
    if keys is None or any(isinstance(value, OracleError) for value in expected):
        return keys is None and any(isinstance(value, OracleError) for value in expected)
    sign = -1 if descending else 1
    pairs = [(i, j) for i in range(len(keys)) for j in range(len(keys))]
    return all(_sign(keys[i], keys[j]) == sign * _sign(expected[i], expected[j]) for i, j in pairs)


def _sign(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def rows_of(cache: Cache, world: World) -> list[int]:
    """Return the pods' rows in the pod table."""
    rows = [cache.pod_row(pod.uid) for pod in world.pods]
    return [row for row in rows if row is not None]


@settings(max_examples=scaled(250))
@given(text=rules(("bool",), ELSEWHERE), situation=worlds(max_pods=6))
def test_victims_are_those_of_the_oracle(text: str, situation: Situation) -> None:
    """The victims are the oracle's; positions without a pod do not matter."""
    found = sections(victim=text)
    assume(found is not None)
    assert found is not None
    section, choices, checked = found
    world, pod = situation
    cache = cache_of(world)
    rows = np.array([*rows_of(cache, world), -1], np.intp)
    expected = [
        oracle_value(
            checked, world, pod, cache.nodes.row_of[one.node_name], section.victim, victim=one
        )
        for one in world.pods
    ]
    for bound in ways(choices, cache):
        answer = attempt(lambda b=bound: b.victim(pod, world.now, PodRows(cache.pods, rows)))  # type: ignore[misc]
        assert (None if answer is None else answer[:-1]) == (
            None if any(isinstance(e, OracleError) for e in expected) else expected
        )


@settings(max_examples=scaled(200))
@given(
    text=rules(("int", "string", "double", "bool"), OF_PODS),
    situation=worlds(max_pods=6),
    order=st.sampled_from(["Ascending", "Descending"]),
)
def test_victims_are_ordered_by_the_values_of_the_rule(
    text: str, situation: Situation, order: str
) -> None:
    """Keys of victims order them as the values of the rule do."""
    found = sections(victimOrder=[{"expression": text, "order": order}])
    assume(found is not None)
    assert found is not None
    section, choices, checked = found
    world, pod = situation
    cache = cache_of(world)
    rows = np.array(rows_of(cache, world), np.intp)
    tree = section.victim_order[0].expression
    expected = [
        oracle_value(checked, world, pod, cache.nodes.row_of[one.node_name], tree, victim=one)
        for one in world.pods
    ]
    for bound in ways(choices, cache):
        keys = attempt(lambda b=bound: b.victim_order(pod, rows)[0])  # type: ignore[misc]
        assert agree(keys, expected, descending=order == "Descending"), (text, keys, expected)


@settings(max_examples=scaled(300))
@given(text=node_keys(), situation=worlds(max_pods=8), data=st.data())
def test_nodes_are_ordered_by_the_values_of_the_rule(
    text: str, situation: Situation, data: st.DataObject
) -> None:
    """Keys of nodes order them as the values of the rule over their victims do."""
    found = sections(nodeOrder=[{"expression": text}])
    assume(found is not None)
    assert found is not None
    section, choices, checked = found
    world, pod = situation
    victims = {
        row: [one for one in world.pods if one.node_name == node.metadata.name]
        for row, node in enumerate(world.nodes)
    }
    places = [row for row, pods in victims.items() if pods]
    assume(places)
    cache = cache_of(world)
    depth = max(len(victims[row]) for row in places)
    block = np.full((depth, len(places)), -1, np.intp)
    for place, row in enumerate(places):
        order = data.draw(st.permutations(victims[row]))
        for line, one in enumerate(order):
            block[line, place] = cache.pod_row(one.uid)
    broken = [data.draw(numbers(3)) for _ in places]
    nodes = CandidateNodes(
        np.array(places, np.intp),
        PodRows(cache.pods, block),
        np.array(broken, np.int64),
        lambda place: tuple(victims[places[place]]),
    )
    tree = section.node_order[0].expression
    expected = [
        oracle_value(
            checked, world, pod, row, tree, victims=victims[row], pdbViolations=broken[place]
        )
        for place, row in enumerate(places)
    ]
    for bound in ways(choices, cache):
        (key,) = bound.node_keys
        keys = attempt(lambda k=key: k(pod, world.now, nodes))  # type: ignore[misc]
        assert agree(keys, expected), (text, keys, expected)


@settings(max_examples=scaled(50))
@given(text=rules(("bool",), (*ELSEWHERE, "node.", "(node)", "(node,", "victim")), s=worlds())
def test_whether_a_pod_may_preempt_is_the_oracles_result(text: str, s: Situation) -> None:
    """Whether a pod may preempt is the oracle's result."""
    world, pod = s
    text = text.replace("victim.", "pod.")
    found = sections(eligible=text)
    assume(found is not None)
    assert found is not None
    section, choices, checked = found
    expected = oracle_value(checked, world, pod, 0, section.eligible)
    for bound in ways(choices, cache_of(world)):
        if isinstance(expected, OracleError):
            with pytest.raises(RuleError):
                bound.eligible(pod, world.now)
        else:
            assert bound.eligible(pod, world.now) is expected


PLANNED: Final = (
    "victim.priority < pod.priority",
    'victim.labels[?"tenant"].orValue("") == pod.labels[?"tenant"].orValue("")',
    '!("keep" in victim.annotations) && victim.namespace != "kube-system"',
    'victim.name.startsWith("batch-") || victim.requests["cpu"] > quantity("2")',
    'now - victim.startTime.orValue(now) > duration("5m")',
    "victim.startTime.hasValue() && victim.startTime.value() < now",
    'victim.startTime.optMap(t, now - t > duration("5m")).orValue(false)',
    'victim.ownerKind in ["Job", "ReplicaSet"]',
    'node.labels[?"zone"].orValue("") != "b"',
)
NOT_PLANNED: Final = (
    "victim.containers.size() > 1",
    'victim.labels.exists(k, k.startsWith("x"))',
    "victim.tolerations.size() == 0",
)


@pytest.mark.parametrize("text", PLANNED)
def test_sections_evaluated_for_all_victims_at_once(text: str) -> None:
    """Fields, labels, annotations and amounts of victims are columns; texts are looked up once."""
    found = sections(victim=text)
    assert found is not None
    assert found[1].victim.victims is not None


@pytest.mark.parametrize("text", NOT_PLANNED)
def test_sections_evaluated_victim_by_victim(text: str) -> None:
    """Lists of a victim are not."""
    found = sections(victim=text)
    assert found is not None
    assert found[1].victim.victims is None


class TestSpecial:
    """Corners."""

    def cluster(self) -> Cache:
        cache = Cache()
        cache.add_node(make_node("n"))
        for name, priority in (("a", 3), ("b", 1), ("c", 2)):
            info = PodInfo.of(make_pod(name, priority=priority, node_name="n", labels={"x": name}))
            cache.add_pod(info)
        return cache

    def bound(self, cache: Cache, **section: Any) -> BoundPreemption:
        found = sections(**section)
        assert found is not None
        return BoundPreemption(found[1], cache.nodes, cache.pods)

    def test_an_error_names_the_rule(self) -> None:
        """The message has the part that failed, and the reason."""
        cache = self.cluster()
        bound = self.bound(cache, victim='victim.labels["y"] == ""')
        with pytest.raises(RuleError, match=r"test\.preemption\.victim: no such key 'y'"):
            bound.victim(PodInfo.of(make_pod()), 0, PodRows(cache.pods, np.array([0])))

    def test_the_least_int_is_the_last_when_descending(self) -> None:
        """Descending keys do not overflow."""
        bound = self.bound(
            self.cluster(),
            victimOrder=[
                {
                    "expression": "victim.priority == 3 ? -9223372036854775808 : victim.priority",
                    "order": "Descending",
                }
            ],
        )
        (keys,) = bound.victim_order(None, np.arange(3))
        assert np.argsort(keys).tolist() == [2, 1, 0]

    def test_texts_are_ordered_by_code_points(self) -> None:
        """A key that is a text sorts as the text, whatever was interned first."""
        bound = self.bound(self.cluster(), victimOrder=[{"expression": 'victim.labels["x"]'}])
        (keys,) = bound.victim_order(None, np.array([2, 0, 1]))
        assert np.argsort(keys).tolist() == [1, 2, 0]

    def test_a_constant_key_is_as_long_as_its_nodes(self) -> None:
        """A key that reads nothing of a node is the same for all."""
        bound = self.bound(self.cluster(), victimOrder=[{"expression": "params.number"}])
        (keys,) = bound.victim_order(None, np.arange(3))
        assert keys.tolist() == [40, 40, 40]

    def test_a_choice_that_is_the_same_for_all(self) -> None:
        """A text that one test of the pod chooses for all victims is looked up like any other."""
        cache = self.cluster()
        text = '(pod.priority > 5 ? "a-b" : victim.labels["x"] + "-").replace("-", "")'
        found = sections(victimOrder=[{"expression": text}])
        assert found is not None
        for bound in ways(found[1], cache):
            for priority, order in ((0, [0, 1, 2]), (10, [0, 0, 0])):
                pod = PodInfo.of(make_pod(priority=priority))
                (keys,) = bound.victim_order(pod, np.arange(3))
                assert keys.tolist() == order
