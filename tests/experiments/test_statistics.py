"""Means, intervals and significance of a few seeds."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.experiments import statistics

#: Pods that a policy placed more than another one on a real cluster, with six seeds.
OPENB = (-8.0, -2.0, 6.0, -19.0, 14.0, -25.0)
VALUES = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=12)


def test_differences_of_both_signs_are_noise() -> None:
    """One seed gave "8 pods fewer"; the next ones -2, +6, -19, +14 and -25."""
    difference = statistics.paired([8000.0] * 6, [8000.0 + item for item in OPENB])
    assert difference.verdict is statistics.Significance.NOISE
    assert difference.difference.mean == pytest.approx(-34 / 6)
    assert difference.difference.low < 0 < difference.difference.high
    assert difference.new == pytest.approx(8000 - 34 / 6)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.0, 0.0], statistics.Significance.EQUAL),
        ([5.0], statistics.Significance.TOO_FEW),
        ([5.0, 6.0], statistics.Significance.TOO_FEW),
        ([5.0, -6.0, 4.0, -7.0, 5.0], statistics.Significance.TOO_FEW),
        ([5.0, 5.0], statistics.Significance.DIFFERENT),
        ([5.0, 6.0, 4.0, 7.0, 5.0, 6.0], statistics.Significance.DIFFERENT),
        ([5.0, -6.0, 4.0, -7.0, 5.0, 6.0], statistics.Significance.NOISE),
    ],
)
def test_a_verdict_needs_enough_seeds(
    differences: list[float], verdict: statistics.Significance
) -> None:
    """Few values on one side prove nothing, unless the seed makes no difference at all."""
    assert statistics.paired([0.0] * len(differences), differences).verdict is verdict


def test_so_many_seeds_can_tell() -> None:
    """Five pairs have a p-value of 0.06 at least, whatever they are; 24 comparisons share 0.05."""
    for comparisons in (1, 2, 3, 24, 1000):
        least = statistics.seeds_to_tell(comparisons)
        assert 2 / 2**least <= 0.05 / comparisons < 2 / 2 ** (least - 1)
    assert (statistics.seeds_to_tell(), statistics.seeds_to_tell(24)) == (6, 10)


def test_too_few_seeds_are_told() -> None:
    """`sweep` said "0 of 24 differences are more than noise" where no five seeds can show one."""
    five, six = ([float(i) for i in range(count)] for count in (5, 6))
    few = statistics.paired([0.0] * 5, five)
    same, more = statistics.paired([0.0] * 5, [2.0] * 5), statistics.paired([0.0] * 6, six)
    assert statistics.told("default", [(5, few)] * 24) == (
        "5 seeds are too few to tell any of 24 differences from default, whatever was measured:"
        " 6 can tell one, and 10 all 24 at once."
    )
    messages = statistics.told("default", [(1, few)])
    assert messages.startswith("1 seed is too few to tell the difference")
    assert messages.endswith("6 can; 2 are enough if seeds change nothing.")
    assert statistics.told("a", [(5, same), (5, few)]) == (
        "Of 2 differences from a, 1 is more than noise. 5 seeds are too few to tell the other one,"
        " whatever was measured: 6 can tell one, and 7 all 2 at once."
    )
    no_difference = statistics.paired([0.0] * 5, [0.0] * 5)
    assert statistics.told("a", [(5, no_difference)] * 22 + [(5, few)] * 2).startswith(
        "Of 24 differences from a, 22 are 0 in every pair. 5 seeds are too few to tell the other 2,"
    )
    assert statistics.told("a", [(6, more)] * 3) == "3 of 3 differences from a are more than noise."
    assert statistics.told("a", [(6, more)] * 24).endswith("; chance alone makes about 1 look so.")


@given(VALUES)
def test_the_interval_holds_the_mean_and_is_always_the_same(values: list[float]) -> None:
    """The draws have a fixed seed; effects on both sides cancel out."""
    estimate = statistics.estimate(values)
    assert estimate == statistics.estimate(values)
    assert estimate.low - 1e-6 <= estimate.mean <= estimate.high + 1e-6
    shifted = statistics.paired(values, [value + 3 for value in values])
    assert shifted.difference == statistics.Estimate(3, 3, 3)


@given(VALUES)
def test_sides_may_be_swapped(values: list[float]) -> None:
    """The mean difference has the other sign, and is as wide."""
    zeros = [0.0] * len(values)
    first, other = statistics.paired(zeros, values), statistics.paired(values, zeros)
    assert first.difference.mean == -other.difference.mean


def test_more_values_make_it_narrower() -> None:
    """The same scatter, four times."""
    few, many = statistics.estimate(OPENB), statistics.estimate(OPENB * 4)
    assert many.high - many.low < (few.high - few.low) * 0.6
