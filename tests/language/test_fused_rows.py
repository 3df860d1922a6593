"""Fused functions of a few rows: rules of several policies, with the results of each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policy_sched.framework import RowRule
from policy_sched.language.codegen import fuse, fuse_rows
from policy_sched.language.expression import BoundExpression, per_row
from policy_sched.language.ir import Recording
from policy_sched.language.runtime import Runtime
from policy_sched.language.values import LimitError, one_evaluation
from policy_sched.model import PodInfo
from tests.examples import scaled

from .harness import cache_of, checked, compiled, cycle_of
from .oracle_world import World
from .strategies import rules, worlds


def bound_rules(texts: list[str], section: str, world: World) -> list[BoundExpression]:
    """Return the rules of some texts that the compiler accepts, over the nodes of a world."""
    trees = [checked(text, section)[0] for text in texts]
    found = [compiled(tree) for tree in trees if tree is not None]
    nodes = cache_of(world).nodes
    return [one.bind(nodes) for one in found if one is not None and not one.reads.clock]


def row_rule(bound: BoundExpression, world: World, *, code: str = "", recorded: bool) -> RowRule:
    """Return a rule as the framework has it; one that counts its steps is called."""
    program, failing = bound.expression.program, bound.expression.can_fail
    holds = "out[0]" if code else "True"
    if failing:
        holds = f"not out[1] and {holds}"
    limited = one_evaluation if program.metered else None
    recording = program.recording if recorded and not program.metered else None
    value = code or "out[0]"
    return RowRule(
        bound.functions.scalar, cycle_of(world), holds, value, limited, recording=recording
    )


@settings(max_examples=scaled(150), deadline=None)
@given(data=st.data(), situation=worlds())
def test_fused_rows_are_filtered_and_scored_as_by_each_rule(
    data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """The first filter that rejects a row is named, and scores are those of each rule alone."""
    world, pod = situation
    assume(world.nodes)
    filters = bound_rules(data.draw(st.lists(rules("filter"), max_size=3)), "filter", world)
    scores = bound_rules(data.draw(st.lists(rules("score"), max_size=2)), "score", world)
    called = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
    numbered = [
        (3 * i, row_rule(one, world, code=str(i + 1), recorded=called.pop()))
        for i, one in enumerate(filters)
    ]
    scoring = [row_rule(one, world, recorded=called.pop()) for one in scores]
    runtime = Runtime(cache_of(world).nodes)
    update, rejections, rated = fuse_rows(numbered, scoring, cycle_of(world), runtime)
    rows = list(range(len(world.nodes)))
    first = np.array([data.draw(st.integers(0, 1)) for _ in rows], np.int16)
    try:
        expected = [rejection_of(filters, world, pod, row) for row in rows]
        passing = [row for row, one in zip(rows, expected, strict=True) if one is None]
        values = [scores_of(scores, world, pod, row) for row in passing]
        every = [scores_of(scores, world, pod, row) for row in rows]
    except LimitError:
        return
    still = not first.any() and not any(expected)
    assert rejections(pod, rows, first) == (() if still else expected)
    found, given_scores = update(pod, rows, first)
    assert found == (() if still else expected)
    rules_of_all = [*scoring, *(rule for _, rule in numbered)]
    if given_scores is not None or not any(rule.limited for rule in rules_of_all):
        assert same(given_scores, None if None in values else values)
    assert same(rated(pod, rows), None if None in every else every)


@settings(max_examples=scaled(100), deadline=None)
@given(data=st.data(), situation=worlds())
def test_fused_rules_have_the_values_of_each_rule_on_all_rows(
    data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """Values and errors are those of each rule's own function, also with loops over lists."""
    world, pod = situation
    assume(world.nodes)
    texts = data.draw(st.lists(rules("filter"), min_size=1, max_size=3))
    bound = [
        (one, recording)
        for one in bound_rules(texts, "filter", world)
        if isinstance(recording := one.expression.program.recording, Recording)
        and recording.arrays
        and not one.expression.program.metered
    ]
    cache, n = cache_of(world), len(world.nodes)
    recordings = [recording for _, recording in bound]
    functions = fuse(recordings, recordings).bind(Runtime(cache.nodes, cache.pods))
    for out in (
        functions.filters(pod, cycle_of(world)),
        functions.scores(pod, cycle_of(world)),
    ):
        if out is None:  # numbers are too great
            continue
        place = 0
        for one, recording in bound:
            values, errors = one.vector(pod, cycle_of(world))
            if one.expression.can_fail:
                assert [bool(error) for error in per_row(out[place + 1], n)] == [
                    bool(error) for error in errors
                ]
            found = per_row(out[place], n, listed=one.expression.by_row)
            for value, expected, error in zip(found, values, errors, strict=True):
                assert error or value == expected
            place += len(recording.roots)


def rejection_of(
    filters: list[BoundExpression], world: World, pod: PodInfo, row: int
) -> tuple[int, int] | None:
    """Return which filter rejects a row first, and its code."""
    for i, one in enumerate(filters):
        value, error = one.scalar(pod, cycle_of(world), row)
        if error or not value:
            return 3 * i, i + 1
    return None


def scores_of(
    scores: list[BoundExpression], world: World, pod: PodInfo, row: int
) -> tuple[Any, ...] | None:
    """Return the scores of a row; None where a rule fails."""
    found = [one.scalar(pod, cycle_of(world), row) for one in scores]
    return None if any(error for _, error in found) else tuple(value for value, _ in found)


def same(one: object, other: object) -> bool:
    """Return whether two results are alike, NaN and the sign of 0 included."""
    return repr(one) == repr(other)


def test_a_column_is_read_once_for_all_rules() -> None:
    """Rules that read one column share it, and neither they nor rules with a loop are called.

    All rows are one function unless a rule calls a function for each row.
    """
    world = World([], [])
    texts = [
        "node.podCount < 5",
        "node.podCount < 7 && node.taints.all(t, pod.tolerates(t))",
        "node.pods.all(p, p.ownerUID != node.name)",
    ]
    found = bound_rules(texts, "filter", world)
    recordings = [one.expression.program.recording for one in found]
    assert [isinstance(one, Recording) and one.arrays for one in recordings] == [True, True, False]
    filters = [(i, row_rule(one, world, code="1", recorded=True)) for i, one in enumerate(found)]
    runtime = Runtime(cache_of(world).nodes)
    _, rejections, _ = fuse_rows(filters, None, cycle_of(world), runtime)
    columns = [name for name in rejections.__code__.co_freevars if name.startswith("C")]
    assert len(columns) == 3  # podCount, taints and the name
    assert "out" not in rejections.__code__.co_varnames
