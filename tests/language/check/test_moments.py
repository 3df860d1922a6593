"""Promises of the moments at which a rule that compares the time may change."""

from __future__ import annotations

import pytest

from policy_sched.cluster.tables import NodeTable
from policy_sched.language.check import check_policy, moments_of
from policy_sched.language.check.policy import check_expression
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import PolicySource, Rule, Text, VariableSource
from policy_sched.language.runtime import Activation
from policy_sched.model.pod_group import GroupCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.bound_policy import BoundPolicy
from policy_sched.testing import make_pod

SECOND = 10**9
FAILED = 100 * SECOND

TIMED = [
    'now - podGroup.failedAt.orValue(timestamp(0)) > duration("30s")',
    'podGroup.failedAt.orValue(timestamp(0)) + duration("30s") <= now',
    'duration("30s") >= now - podGroup.failedAt.orValue(timestamp(0))',
    'podGroup.failedAt.orValue(timestamp(0)) - now < duration("-30s")',
    '!(podGroup.failedAt.hasValue() && now - podGroup.failedAt.value() < duration("30s"))',
    'podGroup.failedAt.optMap(t, now - t > duration("30s")).orValue(true)',
    "now == timestamp(130) || now != timestamp(140)",
    "now > timestamp(130) ? now < timestamp(150) : pod.priority > 3",
    "variables.rested || pod.priority > 3",
    'variables.age > duration("30s")',
    'now - duration("10s") > timestamp(120) - duration("5s")',
]
UNTIMED = [
    "now.getHours() > 3",
    'duration("1m") > now - now',
    "[timestamp(3), timestamp(140)].exists(t, now > t)",
    "string(now) > '2026'",
]


def gate(text: str) -> BoundPolicy:
    """Return a policy with one preEnqueue rule, bound to an empty cluster."""
    variables = (
        VariableSource("age", Text("now - podGroup.failedAt.orValue(timestamp(0))")),
        VariableSource("rested", Text('variables.age > duration("30s")')),
    )
    source = PolicySource("Rest", variables=variables, pre_enqueue=(Rule(Text(text)),))
    checked, problems = check_policy(source)
    assert checked is not None, problems
    assert all(checked.moments(rule).complete for rule in checked.rejecting)
    compiled, problems = compile_policy(checked)
    assert compiled is not None, problems
    return BoundPolicy(compiled.sections, NodeTable())


@pytest.mark.parametrize("text", TIMED)
@pytest.mark.parametrize("failed_at", [FAILED, None])
def test_a_rule_changes_at_its_next_moment_and_not_before(text: str, failed_at: int | None) -> None:
    """A gate that rested had to be asked every minute, and opened up to a minute late."""
    rules, pod = gate(text), PodInfo.of(make_pod("a"))
    group = GroupCounts("ring", failed_at=failed_at)
    edges = [s * SECOND + d for s in (30, 100, 105, 125, 130, 140, 150) for d in (-1, 0, 1)]
    held = {t: rules.pre_enqueue(pod, Activation(now=t, pod_group=group)) for t in edges}
    for now in edges:
        due = rules.next_moment(pod, Activation(now=now, pod_group=group))
        until = [held[t] for t in edges if now <= t and (t < due or not due)]
        assert len(set(until)) == 1, (now, due)


@pytest.mark.parametrize("text", UNTIMED)
def test_other_uses_of_the_time_have_no_moment(text: str) -> None:
    """They are asked again from time to time, as the policy says."""
    tree, problems = check_expression(text, "preEnqueue")
    assert tree is not None, problems
    assert not moments_of(tree, {}, {}).complete


def test_a_rule_that_reads_no_time_has_no_moment() -> None:
    """And nothing is left open."""
    tree, _ = check_expression("pod.creationTime < timestamp(3)", "preEnqueue")
    assert tree is not None
    assert moments_of(tree, {}, {}).complete
    assert not moments_of(tree, {}, {}).stated
