"""A rule over an overlay equals the rule over a table with the overlay's pods."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.language.expression import BoundExpression
from policy_sched.model.pod_info import PodInfo
from tests.cluster.overlay_changes import Contents, cache_with, contents_of, make_changes
from tests.examples import scaled
from tests.language.changing import NOW, bound_to, change
from tests.language.harness import cache_of
from tests.language.oracle_world import World
from tests.language.strategies import pods, worlds

#: Rules that read what pods change: columns, sums, counts, domains, records and the cluster.
TEXTS: Final = (
    "node.podCount < node.allocatable['pods'].units() && pod.requests['cpu'] <= node.free['cpu']",
    "percent(node.requested['memory'] + pod.requests['memory'], node.allocatable['memory'])",
    "(5 - node.podCount + pod.containers.size() - node.requested['cpu'].units()) / 4",
    "node.requested[?pod.name].orValue(quantity('0')).units() + node.free['cpu'].units()",
    "node.pods.filter(p, p.namespace == pod.namespace).size() < 2",
    "node.pods.exists(p, p.priority > pod.priority) ? node.podCount : 0",
    "node.pods.map(p, p.requests['cpu'].units()).sum()",
    "domain('zone').pods.filter(p, p.namespace == pod.namespace).size()",
    "domain('zone').podCount * 100 + domain('zone').requested['cpu'].units()",
    "domains('zone').map(d, d.free['cpu'].units()).min()",
    "cluster.pods.filter(p, p.namespace == pod.namespace).size() + node.podCount",
    "cluster.podCount * 10 + cluster.requested['memory'].units()",
)


def answers(bound: BoundExpression, pod: PodInfo) -> list[tuple[object, int]]:
    """Return value and error of every live row: of all rows at once, by number, one by one."""
    table = bound.table
    live = sorted(table.row_of.values())
    every = list(zip(*bound.vector(pod, NOW), strict=True))
    some = list(zip(*bound.vector(pod, NOW, np.array(live, np.intp)), strict=True))
    found = []
    for place, row in enumerate(live):
        ways = [every[row], some[place], bound.scalar(pod, NOW, row)]
        (one,) = {(0 if error else repr(value), error) for value, error in ways}
        found.append(one)
    return found


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=scaled(8), deadline=None)
@given(data=st.data(), situation=worlds())
def test_a_rule_over_an_overlay_equals_the_rule_over_such_a_table(
    text: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """Whatever was evaluated before and in between, over the overlay or over the table."""
    world, pod = situation
    cache = cache_of(world)
    bound = bound_to(text, cache, "any")
    over = bound.expression.bind(cache.overlay, cache.pods)
    guests = [PodInfo.of(data.draw(pods(f"guest{i}"))) for i in range(data.draw(st.integers(0, 4)))]

    def check(contents: Contents) -> None:
        if data.draw(st.booleans()):
            fresh = cache_with(cache, contents)
            assert answers(over, pod) == answers(bound_to(text, fresh, "any"), pod)
        if data.draw(st.booleans()):
            assert answers(bound, pod) == before

    for step in range(2):
        change(data, cache, step)
        if not cache.nodes.row_of:
            return
        before = answers(bound_to(text, cache_with(cache, contents_of(cache)), "any"), pod)
        assert answers(bound, pod) == before
        make_changes(data, cache, guests, check)
        assert answers(bound, pod) == before
        assert answers(over, pod) == before
