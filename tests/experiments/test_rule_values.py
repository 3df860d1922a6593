"""Values of rules that are kept are those that the rule returns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy_sched.cluster import Cache
from policy_sched.experiments.rule_values import NO_CYCLE, RuleValues
from policy_sched.language import Expression
from policy_sched.model import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.harness import checked, compiled

FOLLOWS = (
    'node.free["cpu"].units() + int(pod.annotations["n"]) * node.labels[?"a"].orValue("").size()'
)
MORE = "node.pods.map(p, p.name.size()).sum()"


def rule(text: str) -> Expression:
    """Return a compiled rule."""
    tree, problems = checked(text)
    assert tree is not None, problems
    found = compiled(tree)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (FOLLOWS, True),
        (MORE, False),
        ('node.labels[pod.name] == "a"', False),
        ("cluster.podCount > 1", False),
        ('namespaceObject.labels[?"a"].orValue("") == node.name', False),
        ("pod.requests.fitsIn(node.free)", False),
    ],
)
def test_what_a_value_follows_from(text: str, kept: bool) -> None:
    """Values are kept where they follow from the pod and columns of the row alone."""
    assert (rule(text).columns is not None) is kept


@given(
    events=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["1", "2", "x"])),
        max_size=12,
    )
)
@pytest.mark.parametrize("text", [FOLLOWS, MORE])
def test_kept_values_are_the_rules(text: str, events: list[tuple[int, int, str]]) -> None:
    """Whatever comes to the nodes, a kept value is the one that the rule has now."""
    cache = Cache()
    for number in range(4):
        cache.add_node(make_node(f"n{number}", cpu=9, labels={"a": "xy"[: number % 2]}))
    found = rule(text)
    values = RuleValues(found, cache.nodes, cache.pods)
    plain = found.bind(cache.nodes, cache.pods).scalar
    for number, (row, cpu, text_of) in enumerate(events):
        pod = PodInfo.of(make_pod(f"p{number}", requests={"cpu": cpu}, annotations={"n": text_of}))
        for each in range(4):
            assert values(pod, each) == plain(pod, NO_CYCLE, each)
        cache.add_pod(pod.on(f"n{row}"))
