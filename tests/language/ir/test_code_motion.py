"""Promises of the cost estimate: expensive rules, cheap ones, and the part that is named."""

from __future__ import annotations

import pytest

from policy_sched.language.check.definitions import Checked
from policy_sched.language.compile import make_unit
from policy_sched.language.cost_report import over_budget
from policy_sched.language.diagnostics import Text
from policy_sched.language.ir.code_motion import Cost
from policy_sched.language.lower.dispatch import make_lowering
from policy_sched.language.values import types
from tests.language.harness import checked


def cost(text: str) -> tuple[Cost, Cost]:
    """Return what a text costs: with materialized columns, and after every node has changed."""
    tree, problems = checked(text)
    assert tree is not None, problems
    low = make_lowering({}, types.RecordType("record"), {})
    program = make_unit(low, [low.plain(low.lower(tree, {}))], keeps=True).program
    return program.kept, program.full


def test_costs_add_up() -> None:
    """Units count per node, nanoseconds per pass."""
    assert (Cost(2.0, 100.0) + Cost(1.0, 50.0)).nanoseconds(10) == 180.0


@pytest.mark.parametrize("text", ["1 + 1 == 2", 'pod.name == "a"', "cluster.nodeCount > 3"])
def test_what_reads_no_node_costs_nothing_per_node(text: str) -> None:
    """Such a rule is computed once, however many nodes there are."""
    kept, full = cost(text)
    assert kept.units == full.units == 0


def test_what_is_kept_is_not_counted() -> None:
    """A rule over nodes alone is kept; with the pod in it, it is computed for each pod."""
    kept, full = cost('node.labels["a"] == "b" && node.labels["c"] == "d"')
    assert kept.units < full.units
    mixed, _ = cost('node.labels["a"] == pod.name && node.labels["c"] == pod.namespace')
    assert mixed.units > kept.units


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ('node.free["cpu"] > pod.requests["cpu"]', 'node.free["cpu"].units() / pod.priority > 3'),
        ("node.podCount > pod.priority", "node.name.endsWith(pod.name)"),
        ('node.labels[?"a"].orValue("") == "b"', 'node.annotations[?"a"].orValue("").size() > 1'),
        ("node.name.size() > 3", 'node.name.split("-").exists(s, s.size() > pod.priority)'),
        (
            "node.pods.filter(p, p.namespace == pod.namespace).size() > 3",
            "node.pods.filter(p, p.name.contains(node.name)).size() > 3",
        ),
    ],
)
def test_what_makes_a_rule_expensive(cheap: str, dear: str) -> None:
    """Division, text of each node's own, lists, and pods that cannot be counted beforehand."""
    assert cost(cheap)[1].nanoseconds(5_000) < cost(dear)[1].nanoseconds(5_000)


def test_the_most_expensive_part_is_named() -> None:
    """The refusal stands at the part that has most of the cost, and says how much of it."""
    text = "node.podCount < 3 || node.pods.filter(p, p.name.contains(node.name)).size() < 3"
    tree, _ = checked(text)
    assert tree is not None
    rule = Checked(tree, Text(text))
    given = ({}, types.RecordType("record"), {}, ())
    refusal = over_budget(rule, cost(text)[0].units, 500, given)
    assert refusal.code == "PS503"
    assert text[refusal.span.start :].startswith("node.pods.filter")
    assert "the limit is 500" in refusal.message
    assert "% of it is this part" in refusal.message


def test_a_dear_part_that_is_written_often_is_named() -> None:
    """The refusal stood at a cheap part, as each use by itself is not most of the cost."""
    dear = "node.pods.filter(p, p.name.contains(node.name)).size()"
    text = f"{dear} > 9 ? 9 : {dear} < 3 ? {dear} * 2 : node.podCount + {dear}"
    tree, _ = checked(text)
    assert tree is not None
    given = ({}, types.RecordType("record"), {}, ())
    refusal = over_budget(Checked(tree, Text(text)), 4 * cost(dear)[0].units, 500, given)
    assert (refusal.span.start, refusal.span.end) == (0, len(dear))
    assert "and the 4 uses of this part are 100% of it" in refusal.message
    assert refusal.hint.startswith("name it in `variables`: it is computed once then")
