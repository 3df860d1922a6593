"""Promises of what is computed row by row: once for equal rows, and together where that is less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from policy_sched.cluster.tables import NodeTable
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.model import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.harness import cache_of, checked, compiled
from tests.language.oracle_world import World

WORDS = 'node.labels[?"w"].orValue("a,b").split(",")'
WORLD = World(
    [make_node(f"n{i}", cpu=i % 3 + 1, labels={"w": "x,y,z"[: 1 + 2 * (i % 2)]}) for i in range(9)],
    [],
)
POD = PodInfo.of(make_pod())


SEVERAL = (
    f'cel.bind(l, {WORDS}.map(x, x + "!"), l.map(x, x.size()).max() + '
    'l.filter(x, x.size() > 1).map(x, x.size() * node.free["cpu"].units()).max())'
)
RANGES = (
    'cel.bind(l, lists.range(node.free["cpu"].units() / 1000).map(x, x * node.podCount), '
    "l.max() + l.min() * l.indexOf(3))"
)


@pytest.mark.parametrize("text", [SEVERAL, RANGES])
def test_what_runs_row_by_row_is_one_function(text: str) -> None:
    """A rule with several such parts calls one function for each row; the answers are the same."""
    tree, problems = checked(text)
    assert tree is not None, problems
    expression = compiled(tree)
    assert expression is not None
    vector = expression.program.text.partition("def vector")[2].partition("\n    def ")[0]
    assert vector.count("rt.by_row") == 1
    bound = expression.bind(cache_of(WORLD).nodes)
    values, errors = bound.vector(POD, Activation())
    assert list(zip(values, errors, strict=True)) == [
        bound.scalar(POD, Activation(), row) for row in range(9)
    ]


COLUMNS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.one_of(
                st.lists(st.integers(-2, 2), min_size=n, max_size=n).map(np.array),
                st.lists(st.sampled_from([0.0, -0.0, 1.5]), min_size=n, max_size=n).map(np.array),
                st.integers(0, 3),
                st.sampled_from([0.0, -0.0]),
            ),
            max_size=3,
        ),
    )
)


@given(given=COLUMNS)
def test_equal_rows_share_a_call(given: tuple[int, list[Any]]) -> None:
    """The results are those of a call for each row; zeros of different signs are not equal."""
    n, columns = given
    calls: list[tuple[object, ...]] = []

    def function(*inputs: object) -> tuple[str, int]:
        calls.append(inputs)
        return repr(inputs), len(inputs)

    runtime = Runtime(NodeTable())
    texts, errors = runtime.by_row_pair("o", function, n, *columns)
    rows = (
        list(zip(*(np.broadcast_to(column, n).tolist() for column in columns), strict=True))
        or [()] * n
    )
    assert texts == [repr(row) for row in rows]
    assert errors.tolist() == [len(columns)] * n
    if not any(isinstance(value, float) for row in rows for value in row):
        assert len(calls) == len(set(rows))
