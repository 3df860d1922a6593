"""Promises about evaluation: vector, scalar and oracle agree, row by row, values and errors.

Points 1 and 2 of the language's test plan: one meaning, also of some rows; ranges hold.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings, strategies as st

from policy_sched.language.values.intervals import Interval
from policy_sched.model.pod_info import PodInfo
from tests.examples import scaled

from .harness import Evaluation, agree, compiles, evaluate, rows_of
from .oracle_world import World
from .strategies import PARAMS, RESULTS, rules, scope_of, worlds, write

Situation = tuple[World, PodInfo]
SECTIONS = ("matchConditions", "filter", "score", "reserve", "permit.timeout", "postBind")


def evaluated(text: str, section: str, situation: Situation) -> Evaluation:
    """Evaluate a rule; one that the compiler does not build yet is set aside."""
    result = evaluate(text, *situation, section=section, params=PARAMS)
    assume(result is not None)
    assert result is not None
    return result


@pytest.mark.parametrize("section", SECTIONS)
@given(data=st.data(), situation=worlds())
def test_three_evaluations_agree(section: str, data: st.DataObject, situation: Situation) -> None:
    """The vector function, the scalar function and the oracle give each row the same outcome."""
    result = evaluated(data.draw(rules(section)), section, situation)
    for row, expected in enumerate(result.oracle()):
        assert agree(result.vector()[row], expected), (row, "vector")
        assert agree(result.scalar(row), expected), (row, "scalar")


@given(rules("filter"), worlds(), st.data())
def test_a_subset_of_rows_is_taken_from_the_whole(
    text: str, situation: Situation, data: st.DataObject
) -> None:
    """Evaluating some rows, in any order and twice, gives what the whole gives at those rows."""
    result = evaluated(text, "filter", situation)
    whole = result.vector()
    rows = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9))
    for got, row in zip(result.vector(rows), rows, strict=True):
        assert agree(got, whole[row])


@pytest.mark.parametrize("bound", ["-0.5", "0.0", "0.5", "1.0", "1.5"])
@pytest.mark.parametrize("relation", ["<", "<=", ">", ">="])
@settings(max_examples=scaled(30))
@given(situation=worlds())
def test_a_double_bounds_an_int(relation: str, bound: str, situation: Situation) -> None:
    """A count that is more than 0.5 may be 1: it was taken to be more, or divided by int(0.5)."""
    rest = "node.podCount == 1 ? 5 : 10 / node.podCount"
    rows_of(f"node.podCount {relation} {bound} ? ({rest}) : ({rest}) + 1", *situation)
    rows_of(f"{bound} {relation} node.podCount ? ({rest}) : ({rest}) + 1", *situation)


def within(value: float, interval: Interval) -> bool:
    """Tell whether a number lies in an interval; NaN is in every one of doubles."""
    return value != value or interval.lo <= value <= interval.hi  # noqa: PLR0124


@pytest.mark.parametrize("section", ["filter", "score"])
@given(data=st.data(), situation=worlds())
def test_intervals_are_sound(section: str, data: st.DataObject, situation: Situation) -> None:
    """A value lies inside its inferred range, and what cannot fail does not."""
    result = evaluated(data.draw(rules(section)), section, situation)
    for outcome in result.oracle():
        assert result.expression.can_fail or not outcome.error
        found = result.expression.range
        assert outcome.error or found is None or within(outcome.value, found)


@given(rules("score"), worlds())
def test_a_clamped_score_is_within_bounds(text: str, situation: Situation) -> None:
    """A score that the compiler accepts without a normaliser is 0..100 on every row."""
    result = evaluated(f"clamp(int({text}), 0, 100)", "score", situation)
    for outcome in result.vector():
        assert outcome.error or 0 <= outcome.value <= 100


def test_generated_rules_mostly_compile() -> None:
    """The properties above are not empty: nine of ten generated rules pass checker and compiler."""
    chooser = random.Random(7)
    texts = [
        write(chooser.choice, chooser.choice(RESULTS["filter"]), scope_of("filter", 2))
        for _ in range(200)
    ]
    accepted = [compiles(text, "filter", PARAMS) for text in texts]
    assert sum(accepted) >= 180, [t for t, a in zip(texts, accepted, strict=True) if not a]
