"""Promises about a list with a name: it may be run over many times, also inside of itself."""

from __future__ import annotations

from typing import Final

import pytest

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.harness import Outcome, checked, compiled, rows_of
from tests.language.oracle_world import World

WORLD: Final = World([make_node("n0", labels={"c": "x,y"}), make_node("n1")], [])
POD: Final = PodInfo.of(make_pod(labels={"w": "a,b,a", "v": "1,2,3"}))
TEXTS: Final = 'pod.labels["w"].split(",").map(x, x + "!")'
ROWS: Final = 'node.labels[?"c"].orValue("").split(",").map(x, x + "?")'
NUMBERS: Final = 'pod.labels["v"].split(",").map(x, int(x))'
TABLE: Final = f"{NUMBERS}.map(x, {NUMBERS}.filter(y, y != x).map(y, x * y))"


@pytest.mark.parametrize(
    ("listed", "body", "expected"),
    [
        (TEXTS, "l.all(a, l.exists(b, b != a))", True),
        (TEXTS, "l.filter(a, l.exists(b, b != a)).size() + l.size()", 6),
        (TEXTS, "l.size() + l.size() + l.map(a, l.size()).sum()", 15),
        (TEXTS, "l.filter(a, a in l).size()", 3),
        (ROWS, "l.filter(a, l.exists(b, b != a)).size() + l.size()", 4),
        (ROWS, "l.all(a, l.exists_one(b, b == a))", True),
        (NUMBERS, "l.map(a, l.map(b, a * b).sum()).sum()", 36),
        (NUMBERS, "l.map(a, l.filter(b, b < a).map(c, l.filter(d, d > c).size()).sum()).sum()", 5),
        (NUMBERS, "l.transformList(i, a, l.map(b, i * b).sum() + a).sum()", 24),
        (NUMBERS, "l.sum() * l.max() + l.min()", 19),
        (TABLE, "l.map(a, a.sum() + a.size()).sum()", 28),
        (TABLE, "l.map(a, l.map(b, b.sum() * a.max()).sum()).sum()", 330),
    ],
)
def test_a_list_is_run_over_many_times(listed: str, body: str, expected: bool | int) -> None:
    """Each use of a bound list sees all of it, whatever the uses around it are at."""
    assert rows_of(f"cel.bind(l, {listed}, {body})", WORLD, POD)[0] == Outcome(expected)


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        ("l.indexOf(l.max())", 1),
        ("l.map(x, x + 1).sum() + l.map(x, x + 2).sum()", 2),
        ("[1, 2].map(i, i == l[l.indexOf(l.max())])", 1),
    ],
)
def test_loops_that_make_the_same_are_one(body: str, loops: int) -> None:
    """A list that is used several times is made once, however it is used."""
    tree, problems = checked(f"cel.bind(l, {NUMBERS}, {body})")
    assert tree is not None, problems
    expression = compiled(tree)
    assert expression is not None
    scalar = expression.program.text.partition("def vector")[0]
    assert scalar.count("for p") == loops
