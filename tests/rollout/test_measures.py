"""Measures: counts add up, and percentiles are near the times."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given, strategies as st

from policy_sched.rollout import MEASURES, Counts, Measures, Observed

SECONDS = st.floats(1e-5, 500_000.0)


def test_what_has_no_sample_compares_with_nothing() -> None:
    """A side that decided nothing aborts nothing; counts are numbers."""
    counts = Counts(decisions=4, scheduled=4)
    none, some = Observed(candidate=counts).read_by_rules()
    assert math.isnan(none.unschedulable)
    assert (none.errors, some.unschedulable) == (0, 0.0)
    assert math.isnan(some.waiting_p99)
    counts.waited(0.0)
    assert Observed(candidate=counts).read_by_rules()[1].waiting_p99 == 0.0


@given(st.lists(SECONDS, min_size=1, max_size=50), st.sampled_from([0.5, 0.99]))
def test_a_percentile_is_within_a_tenth(times: list[float], part: float) -> None:
    """A percentile of buckets is within a tenth of that of the times."""
    counts = Counts()
    for seconds in times:
        counts.waited(seconds)
    exact = sorted(times)[math.ceil(part * len(times)) - 1]
    measures = counts.measures()
    measured = measures.waiting_p50 if part == 0.5 else measures.waiting_p99
    assert abs(measured - exact) <= 0.1 * exact


@given(st.lists(SECONDS, max_size=20), st.lists(SECONDS, max_size=20))
def test_counts_add_up(one: list[float], other: list[float]) -> None:
    """Counts of two moments together are those of one that saw both."""
    both, first, second = Counts(decisions=5, errors=1), Counts(decisions=2), Counts(decisions=3)
    second.errors = 1
    for counts, times in ((first, one), (second, other), (both, one + other)):
        for seconds in times:
            counts.waited(seconds)
            counts.decided(seconds / 1000)
    assert first.plus(second).measures() == both.measures()
    observed = Observed(first, second).plus(Observed(second, first))
    assert observed.stable.measures() == observed.candidate.measures() == both.measures()


def test_nothing_counted_has_no_shares_and_times() -> None:
    """Measures of no decision are zero: no share is divided by it."""
    assert Counts().measures() == Measures()


def test_odd_times_have_a_bucket() -> None:
    """A time below zero, of a clock that was set, and one without end count as the extremes."""
    counts = Counts()
    for seconds in (-1.0, math.nan, math.inf):
        counts.waited(seconds)
    assert sum(counts.waiting.values()) == 3
    assert counts.fault() == ""


def test_measures_are_named_as_rules_name_them() -> None:
    """The names of measures are those of the plain data."""
    assert tuple(msgspec.to_builtins(Measures())) == MEASURES
    assert "waitingP99" in MEASURES


def test_unschedulable_is_a_share() -> None:
    """Five of ten decisions without a node are 0.5."""
    assert Counts(decisions=10, unschedulable=5).measures().unschedulable == 0.5
