"""Promises about intervals: the result of an operation on members is a member of the result.

Point 2 of the language's test plan: intervals are sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.runtime import scalar
from policy_sched.language.stdlib import builtins_math as kernels_numbers
from policy_sched.language.values import intervals, intervals as ranges

INTS = st.one_of(st.integers(intervals.INT_MIN, intervals.INT_MAX), st.integers(-200, 200))
DOUBLE_VALUES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def members(draw: st.DrawFn, values: st.SearchStrategy[float]) -> tuple[intervals.Interval, float]:
    """An interval and one of its members."""
    found = sorted(draw(st.lists(values, min_size=3, max_size=3)))
    return intervals.Interval(found[0], found[2]), found[1]


IntMember = tuple[intervals.Interval, int]


@pytest.mark.parametrize(
    ("interval", "value"),
    [
        (ranges.add, lambda a, b: a + b),
        (ranges.sub, lambda a, b: a - b),
        (ranges.mul, lambda a, b: a * b),
        (ranges.quotient, scalar.quotient),
        (ranges.remainder, scalar.remainder),
        (ranges.least, kernels_numbers.least),
        (ranges.greatest, kernels_numbers.greatest),
    ],
)
@given(a=members(INTS), b=members(INTS))
def test_int_operations_stay_inside(
    interval: Callable[[intervals.Interval, intervals.Interval], intervals.Interval],
    value: Callable[[int, int], int],
    a: IntMember,
    b: IntMember,
) -> None:
    """Sums, products, quotients and extremes of members lie in the computed interval."""
    if value is scalar.quotient and (b[1] == 0 or (a[1] == intervals.INT_MIN and b[1] == -1)):
        return  # an error, which has no value
    assert interval(a[0], b[0]).has(value(a[1], b[1]))


@pytest.mark.parametrize(
    ("interval", "value"),
    [
        (ranges.double_add, lambda a, b: a + b),
        (ranges.double_sub, lambda a, b: a - b),
        (ranges.double_mul, lambda a, b: a * b),
        (ranges.double_div, kernels_numbers.double_quotient),
        (ranges.least, kernels_numbers.least),
        (ranges.greatest, kernels_numbers.greatest),
    ],
)
@given(a=members(DOUBLE_VALUES), b=members(DOUBLE_VALUES))
def test_double_operations_stay_inside(
    interval: Callable[[intervals.Interval, intervals.Interval], intervals.Interval],
    value: Callable[[float, float], float],
    a: tuple[intervals.Interval, float],
    b: tuple[intervals.Interval, float],
) -> None:
    """Results of doubles lie in the computed interval; NaN only where it says so."""
    found, result = interval(a[0], b[0]), value(a[1], b[1])
    assert found.nan if math.isnan(result) else found.has(result)


@given(members(DOUBLE_VALUES))
def test_rounding_and_truncation_stay_inside(a: tuple[intervals.Interval, float]) -> None:
    """Whole numbers next to a member lie in the interval about it; so do its nearest and int()."""
    assert ranges.about(a[0]).has(scalar.round_half_away(a[1]))
    assert ranges.rounded(a[0]).has(scalar.round_half_away(a[1]))
    if abs(a[1]) < 2.0**63:
        assert ranges.to_int(a[0]).has(math.trunc(a[1]))


@given(st.lists(st.floats(0.0, 1.0), max_size=6))
def test_deviation_of_shares_is_at_most_a_half(values: list[float]) -> None:
    """Population deviations of values in [0, 1] lie in the interval that the proof relies on."""
    found = ranges.deviation(intervals.Interval(0.0, 1.0), len(values))
    assert found.has(scalar.deviation(values))
    assert found.hi < 0.5000001


@given(members(INTS), members(INTS))
def test_what_two_intervals_hold(a: IntMember, b: IntMember) -> None:
    """The hull holds the members of both, and the meet every number that both hold."""
    hull, meet = ranges.hull(a[0], b[0]), ranges.meet(a[0], b[0])
    assert hull.has(a[1])
    assert hull.has(b[1])
    if b[0].has(a[1]):
        assert meet.has(a[1])


def test_int64_fits_itself_and_nothing_wider() -> None:
    """int64 fits itself and nothing wider; every double range may hold NaN."""
    assert ranges.fits(intervals.INT64)
    assert not ranges.fits(ranges.add(intervals.INT64, intervals.Interval(1, 1)))
    assert ranges.cut(intervals.Interval(0, 2**70)) == intervals.Interval(0, intervals.INT_MAX)
    assert ranges.point(math.nan) == intervals.DOUBLES
    assert str(intervals.Interval(0, 100)) == "[0, 100]"
