"""Fused programs: rules of several policies as one, with the results of each alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import assume, given, settings, strategies as st

from policy_sched.language.codegen import FusedRule, RuleRoots, fuse
from policy_sched.language.expression import BoundExpression, per_row
from policy_sched.language.ir import Recording
from policy_sched.language.runtime import Runtime
from policy_sched.language.values import LimitError
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


def fused_rule(name: str, bound: BoundExpression, *, flawless: bool = False) -> FusedRule | None:
    """Return a rule as a program takes it; None where it is called instead."""
    program = bound.expression.program
    if program.metered or program.recording is None:
        return None
    error = 1 if bound.expression.can_fail else None
    return FusedRule(name, program.recording, (RuleRoots(0, error, flawless),))


@settings(max_examples=scaled(150), deadline=None)
@given(data=st.data(), situation=worlds())
def test_fused_rows_are_filtered_and_scored_as_by_each_rule(
    data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """The first filter that rejects a row is named, and scores are those of each rule alone.

    Rules take part or not, and functions are called between and after them.
    """
    world, pod = situation
    assume(world.nodes)
    filters = bound_rules(data.draw(st.lists(rules("filter"), max_size=3)), "filter", world)
    scores = bound_rules(data.draw(st.lists(rules("score"), max_size=3)), "score", world)
    found = [(one, fused_rule(f"f{i}", one)) for i, one in enumerate(filters)]
    rated = [(one, fused_rule(f"s{i}", one)) for i, one in enumerate(scores)]
    fused = [rule for _, rule in found if rule is not None]
    scoring = [(one, rule) for one, rule in rated if rule is not None]
    places, before = {"none": len(fused)}, 0
    for i, (_, rule) in enumerate(found):
        if rule is None:
            places[f"f{i}"] = before
        before += rule is not None
    program = fuse(fused, [rule for _, rule in scoring], places)
    runtime, cycle = Runtime(cache_of(world).nodes), cycle_of(world)
    functions = program.bind(runtime)
    drawn = data.draw(st.lists(st.booleans(), min_size=6, max_size=6))
    active = [(i, one, rule) for i, (one, rule) in enumerate(found) if drawn[i]]
    numbers = {rule.policy: 3 * i for i, _, rule in active if rule is not None}
    called: list[list[tuple[int, Any]]] = [[] for _ in range(program.gaps)]
    for i, one, rule in active:
        if rule is None:
            code = partial(code_of, one, world)
            called[program.places[f"f{i}"]].append((3 * i, code))
    arguments = [cycle, *(numbers.get(rule.policy) for rule in fused), *map(tuple, called)]
    rates = [drawn[3 + i] for i in range(len(scoring))]
    values_of = [one for (one, _), rated in zip(scoring, rates, strict=True) if rated]
    rows = list(range(len(world.nodes)))
    first = np.array([data.draw(st.integers(0, 1)) for _ in rows], np.int16)
    try:
        expected = [rejection_of(active, world, pod, row) for row in rows]
        passing = [row for row, one in zip(rows, expected, strict=True) if one is None]
        values = [scores_of(values_of, world, pod, row) for row in passing]
    except LimitError:
        return
    still = () if not first.any() and not any(expected) else expected
    assert functions.update(*arguments, *rates, (), None, pod, rows, first) == (
        still,
        Same(None if None in values else values),
    )
    off = [False] * len(rates)
    assert functions.update(*arguments, *off, (), False, pod, rows, first) == (still, None)
    rejection = program.bind_row(runtime)
    assert [rejection(*arguments, pod, row) for row in rows] == expected


class Same:
    """Equal to values that are alike, NaN and the sign of 0 included."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return repr(other) == repr(self._value)

    __hash__ = None  # type: ignore[assignment]  # it is only compared


def code_of(bound: BoundExpression, world: World, pod: PodInfo, row: int) -> int:
    """Return the code of a filter that is called."""
    value, error = bound.scalar(pod, cycle_of(world), row)
    return 2 if error else int(not value)


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
    rules_of_all = [
        FusedRule(str(i), recording, (RuleRoots(0),)) for i, (_, recording) in enumerate(bound)
    ]
    runtime = Runtime(cache.nodes, cache.pods)
    functions = fuse(rules_of_all, rules_of_all, {}).bind(runtime)
    flags = [data.draw(st.booleans()) for _ in bound]
    arrays = functions.kept.arrays()
    if arrays is None:  # numbers are too great
        return
    given = (*flags, pod, cycle_of(world), slice(0, n), n, *arrays)
    for out in (functions.filters(*given), functions.scores(*given)):
        if out is None:
            continue
        for (one, _), takes_part, own in zip(bound, flags, out, strict=True):
            assert (own is not None) == takes_part
            if own is None:
                continue
            values, errors = one.vector(pod, cycle_of(world))
            if one.expression.can_fail:
                assert [bool(error) for error in per_row(own[1], n)] == [
                    bool(error) for error in errors
                ]
            found = per_row(own[0], n, listed=one.expression.by_row)
            for value, expected, error in zip(found, values, errors, strict=True):
                assert error or value == expected


def rejection_of(
    filters: list[tuple[int, BoundExpression, FusedRule | None]],
    world: World,
    pod: PodInfo,
    row: int,
) -> tuple[int, int] | None:
    """Return which filter rejects a row first, and its code."""
    for i, one, _ in filters:
        code = code_of(one, world, pod, row)
        if code:
            return 3 * i, code
    return None


def scores_of(
    scores: list[BoundExpression], world: World, pod: PodInfo, row: int
) -> list[Any] | None:
    """Return the scores of a row; None where a rule fails."""
    found = [one.scalar(pod, cycle_of(world), row) for one in scores]
    return None if any(error for _, error in found) else [value for value, _ in found]


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
    fused = [rule for i, one in enumerate(found) if (rule := fused_rule(str(i), one))]
    assert [rule.over_all_rows for rule in fused] == [True, True, False]
    program = fuse(fused, [], {})
    assert program.filters == ("0", "1", "2")
    assert program.filters_of_all_rows == ("0", "1")
    update = program.bind(Runtime(cache_of(world).nodes)).update
    columns = [name for name in update.__code__.co_freevars if name.startswith("C")]
    assert len(columns) == 3  # podCount, taints and the name
