"""Promises of the suggestions."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.diagnostics import did_you_mean, distance, nearest

WORDS = st.text(alphabet="abAB", max_size=8)


@given(WORDS, WORDS)
def test_distance_is_symmetric_and_bounded(a: str, b: str) -> None:
    """Two words are as far apart in both directions, and only equal words are not apart."""
    apart = distance(a, b)
    assert apart == distance(b, a)
    assert (apart == 0) == (a == b)
    assert abs(len(a) - len(b)) <= apart <= max(len(a), len(b))


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ("free", "fre", 1),
        ("labels", "lables", 1),
        ("node", "mode", 1),
        ("", "abc", 3),
        ("ab", "ba", 1),
    ],
)
def test_typing_errors_are_one_apart(a: str, b: str, apart: int) -> None:
    """A letter too many, missing, wrong or swapped with its neighbour is one error."""
    assert distance(a, b) == apart


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fre", "free"),
        ("lables", "labels"),
        ("LABELS", "labels"),
        ("podcount", "podCount"),
        ("zzz", None),
    ],
)
def test_the_nearest_name_is_offered(name: str, found: str | None) -> None:
    """A name within a third of its length of errors is offered, case not counted."""
    assert nearest(name, ["free", "labels", "podCount", "pods"]) == found


def test_far_names_get_no_suggestion() -> None:
    """Nothing is guessed, also not for a name of absurd length."""
    assert did_you_mean("x" * 1000, ["x" * 999]) == ""
    assert did_you_mean("x", ["y"]) == ""
