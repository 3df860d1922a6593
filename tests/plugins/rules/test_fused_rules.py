"""Fused rules: filters and scores of several policies as one function, with their own answers."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from policy_sched.errors import PluginError
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.framework.runtime import Runner
from policy_sched.language.codegen import FusedRule, RuleRoots, fuse
from policy_sched.language.ir import Builder, Level, ops, recorded
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import BoundFusedRules, BoundProgram, ChainedRules, fuse_policies
from policy_sched.plugins.rules.fused_rules import MOST_OPERATIONS
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler.setup import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.framework.evaluate.test_evaluator import assert_equal

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Some}
spec:
  matchConditions:
  - pod.labels[?"app"].orValue("") == "some"
  filter:
  - expression: node.podCount < 3
    message: enough
  score:
    expression: clamp(100 - 7 * node.podCount, 0, 100)
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Crowds}
spec:
  filter:
  - expression: node.podCount < 4
    message: crowded
  - expression: node.podCount * 4611686018427387904 >= 0
    message: never
    onError: ERROR
  score:
    expression: node.podCount * 7
    normalize: MaxReverse
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Room}
spec:
  score:
    expression: percent(node.free["cpu"].units(), node.allocatable["cpu"].units())
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quiet}
spec:
  score:
    expression: clamp(100 - 25 * node.podCount, 0, 100)
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Loops}
spec:
  filter:
  - expression: node.pods.filter(p, p.namespace == pod.namespace).size() < 6
    message: many
  - expression: '!node.pods.exists(p, p.name.contains("9"))'
    message: unwanted
  score:
    expression: clamp(100 - node.pods.filter(p, p.priority == pod.priority).size(), 0, 100)
"""
NORMALIZED = "expression: node.podCount * 7\n    normalize: MaxReverse"
PLAIN = "expression: clamp(node.podCount * 7, 0, 100)"


@pytest.fixture(name="plans", scope="module")
def _plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[CompiledPlan, ...]]:
    """Return the default profile with policies of scope NODE, by onError; Plain normalises none.

    Normalised scores of one policy make all totals anew, and so hide those that are out of date.
    """
    found = {}
    for name in ("Reject", "Allow", "Abort", "Plain"):
        path = tmp_path_factory.mktemp("fused") / "policy.yaml"
        text = POLICY.replace("ERROR", "Reject" if name == "Plain" else name)
        path.write_text(text.replace(NORMALIZED, PLAIN) if name == "Plain" else text)
        found[name] = read(None, [str(path)])[0]
    return found


@given(data=st.data())
def test_fused_rules_answer_as_each_policy_alone(
    plans: dict[str, tuple[CompiledPlan, ...]], data: st.DataObject
) -> None:
    """Statuses, scores and errors, also of rules that fail and of amounts beyond doubles.

    Policies take part or not, those beyond a number of operations are called, and there are one or
    two programs.
    """
    (plan,) = plans[data.draw(st.sampled_from(sorted(plans)))]
    scheduler = assemble([plan])
    cache = scheduler.cache
    amounts = st.sampled_from(["1Gi", "64Ti", "4Ei", "0"])
    names = [f"n{i}" for i in range(data.draw(st.integers(1, 5)))]
    for name in names:
        cpu = data.draw(st.sampled_from(["2", "4", "9223372036854775"]))
        cache.add_node(make_node(name, cpu=cpu, memory=data.draw(amounts)))
    profile = scheduler.profiles["default-scheduler"]
    filters, scores = ([name for name, _ in plan.plan.points[at]] for at in ("filter", "score"))
    most = data.draw(st.sampled_from([MOST_OPERATIONS, 60, 20, 0]))
    pipeline = profile.pipeline
    cut, later = (
        data.draw(st.integers(0, len(filters))),
        data.draw(st.sets(st.sampled_from(scores))),
    )
    parts = []
    for own_filters, own_scores in (
        (filters[:cut], [name for name in scores if name not in later]),
        (filters[cut:], [name for name in scores if name in later]),
    ):
        program = fuse_policies(plan.policies, own_filters, own_scores, allocates=True, most=most)
        parts.append(
            BoundFusedRules(
                BoundProgram(program, scheduler.handle),
                pipeline.signatures,
                pipeline.scheduler_name,
            )
        )
    whole = cut == len(filters) and not later
    rules = parts[0] if whole else ChainedRules(*parts)
    fused = Evaluator(Runner(replace(pipeline, rules=rules)), cache.nodes)
    alone = Evaluator(profile.runner, cache.nodes, cached=False)
    running: list[PodInfo] = []
    for number in range(data.draw(st.integers(1, 12))):
        pod = PodInfo.of(
            make_pod(
                f"p{number}",
                labels={"app": data.draw(st.sampled_from(["some", "other"]))},
                cpu=data.draw(st.sampled_from([None, "1", f"{number}m", "9223372036854775807m"])),
                memory=data.draw(st.one_of(st.none(), amounts)),
            )
        )
        for one in (pod, PodInfo.of(make_pod("same", cpu="1"))):
            found, expected = evaluated(fused, one), evaluated(alone, one)
            if isinstance(expected, str) or isinstance(found, str):
                assert found == expected
            else:
                assert_equal(found, expected)
                assert found.parts == expected.parts
        if running and data.draw(st.integers(0, 2)) == 0:
            cache.forget(running.pop().uid)
        running.append(PodInfo.of(make_pod(f"r{number}", cpu="100m")))
        cache.assume(running[-1], data.draw(st.sampled_from(names)))


def evaluated(evaluator: Evaluator, pod: PodInfo) -> Evaluation | str:
    """Return an evaluation, or why there is none."""
    try:
        return evaluator.evaluate(pod)
    except PluginError as error:
        return str(error)


def test_policies_of_scope_node_are_fused(plans: dict[str, tuple[CompiledPlan, ...]]) -> None:
    """Filters and scores that read no more than a row are one function, pickled or not."""
    copied = pickle.loads(pickle.dumps(plans["Reject"]))
    scheduler = assemble(copied)
    scheduler.cache.add_node(make_node("n0"))
    rules = scheduler.profiles["default-scheduler"].pipeline.rules
    assert rules is not None
    filters = rules.filters(["NodeName", "NodeResourcesFit", "Crowds"])
    scores = rules.scores(
        ["NodeResourcesFit", "Crowds", "Room", "NodeResourcesBalancedAllocation", "ImageLocality"]
    )
    assert filters is not None
    assert scores is not None
    pod = PodInfo.of(make_pod("p", cpu="1", memory="8Gi"))
    assert {name: one.codes for name, one in filters(pod).items()} == {
        "NodeResourcesFit": None,
        "Crowds": None,
    }
    assert {name: one.tolist() for name, one in scores(pod).items()} == {
        "NodeResourcesFit": [75],
        "Crowds": [0],
        "Room": [100],
        "NodeResourcesBalancedAllocation": [75],
    }


def test_what_several_policies_read_of_a_row_is_kept_once() -> None:
    """Two recordings of one expression become one operation and one materialized column."""
    build = Builder()
    free, all_of_it = (
        build.op(ops.COLUMN, rep="i", data=(family, "cpu"), level=Level.NODE)
        for family in ("free", "allocatable")
    )
    used = build.op(ops.SUB, all_of_it, free, rep="i")
    recording = recorded([used], [used])
    assert recording is not None
    rule = FusedRule("p", recording, (RuleRoots(0),))
    program = fuse([rule], [rule, rule], {})
    assert len(program.dynamic) == 1
