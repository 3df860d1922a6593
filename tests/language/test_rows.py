"""Promises about arithmetic over rows: each row has what the same function of one row gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from policy_sched.language.runtime import scalar as one, vector as rows
from policy_sched.language.values.intervals import INT_MAX, INT_MIN

INTS = st.one_of(
    st.integers(-200, 200),
    st.sampled_from([0, 1, -1, INT_MIN, INT_MAX]),
    st.integers(INT_MIN, INT_MAX),
)
PAIRS = st.lists(st.tuples(INTS, INTS), min_size=1, max_size=8)
AMOUNTS = st.integers(-(2**53), 2**53)
DOUBLES = st.one_of(st.floats(), st.sampled_from([2.0**63, -(2.0**63), 0.5, -0.5, 1.5]))
SITE = 7


def columns(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return pairs as two arrays."""
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


@pytest.mark.parametrize(
    ("over_rows", "exact"),
    [
        (rows.add_checked, lambda a, b: a + b),
        (rows.sub_checked, lambda a, b: a - b),
        (rows.mul_checked, lambda a, b: a * b),
    ],
)
@given(pairs=PAIRS)
def test_checked_arithmetic(
    over_rows: Callable[..., Any], exact: Callable[[int, int], int], pairs: list[tuple[int, int]]
) -> None:
    """Sums, differences and products are exact, or errors where they leave int64."""
    values, errors = over_rows(*columns(pairs), SITE)
    for i, (a, b) in enumerate(pairs):
        value, error = one.checked(exact(a, b), SITE)
        assert np.broadcast_to(errors, len(pairs))[i] == error
        assert error or values[i] == value


@given(PAIRS)
def test_quotients_truncate_and_remainders_have_the_dividends_sign(
    pairs: list[tuple[int, int]],
) -> None:
    """Quotients truncate, remainders have the dividend's sign; what is an error gives 0."""
    with np.errstate(all="ignore"):
        quotients, remainders = (
            rows.quotient_rows(*columns(pairs)),
            rows.remainder_rows(*columns(pairs)),
        )
    assert quotients.tolist() == [one.quotient(a, b) for a, b in pairs]
    assert remainders.tolist() == [one.remainder(a, b) for a, b in pairs]


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=8))
def test_percentages_over_rows_are_those_of_one_row(pairs: list[tuple[int, int]]) -> None:
    """Shares are those of one row, in whichever way they are computed."""
    part, whole = columns(pairs)
    expected = [one.percent(a, b) for a, b in pairs]
    with np.errstate(all="ignore"):
        assert rows.percent_rows(part, whole).tolist() == expected
    assert [rows.percent_rows(a, b) for a, b in pairs] == expected


@given(st.lists(st.tuples(DOUBLES, DOUBLES), min_size=1, max_size=8))
def test_functions_of_doubles_over_rows_are_those_of_one_row(
    pairs: list[tuple[float, float]],
) -> None:
    """Extremes, roundings and conversions of doubles are those of one row, NaN included."""
    left, right = columns(pairs)
    with np.errstate(all="ignore"):
        least, greatest = rows.least_rows(left, right), rows.greatest_rows(left, right)
        rounded = rows.round_rows(left)
        ints, errors = rows.int_of_double_rows(left, SITE)
    for i, (a, b) in enumerate(pairs):
        assert same(least[i], min(a, b))
        assert same(greatest[i], max(a, b))
        assert same(rounded[i], one.round_half_away(a))
        value, error = one.int_of_double(a, SITE)
        assert np.broadcast_to(errors, len(pairs))[i] == error
        assert error or ints[i] == value


@given(st.floats(0.5, 2.0), st.lists(DOUBLES, min_size=1, max_size=8))
def test_a_constant_caps_doubles(cap: float, values: list[float]) -> None:
    """A positive constant and NaN give the constant, as for one row."""
    found = rows.least_rows(cap, np.array(values))
    assert all(same(f, min(cap, v)) for f, v in zip(found, values, strict=True))


def same(a: float, b: float) -> bool:
    """Tell whether two doubles are the same, signs of zeros and NaN included."""
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )


SMALL = st.tuples(st.integers(-(2**45), 2**45), st.integers(-5, 2**46 - 1))


@given(st.lists(SMALL, min_size=1, max_size=8))
def test_shares_as_doubles_are_those_of_whole_numbers(pairs: list[tuple[int, int]]) -> None:
    """Shares computed as doubles are those of whole numbers; of nothing there is no share."""
    part, whole = columns(pairs)
    with np.errstate(all="ignore"):
        found = rows.shares(part * 100.0, rows.divisors(whole), False)
    assert rows.as_whole(found).tolist() == [one.percent(a, b) for a, b in pairs]
    within = np.minimum(part, np.maximum(whole, 0)) * 100.0
    with np.errstate(all="ignore"):
        found = rows.shares(within, rows.divisors(whole), True)
    assert found.tolist() == [one.percent(min(a, b), b) for a, b in pairs]
    for a, b in pairs:
        assert b <= 0 or rows.shares(a * 100.0, float(b), False) == one.percent(a, b)


@given(st.lists(st.booleans(), min_size=1, max_size=4), st.booleans())
def test_masks_and_plain_truths_are_joined_in_any_way(values: list[bool], number: bool) -> None:
    """Masks and plain truths may be joined in any way."""
    mask, other = np.array(values), np.array(values[::-1])
    for a, b in ((mask, other), (mask, number), (number, mask), (number, not number)):
        shape = np.broadcast_shapes(np.shape(a), np.shape(b))
        assert np.array_equal(np.broadcast_to(rows.both(a, b), shape), np.logical_and(a, b))
        assert np.array_equal(np.broadcast_to(rows.either(a, b), shape), np.logical_or(a, b))
        assert np.array_equal(rows.opposite(a), np.logical_not(a))
        chosen = np.broadcast_to(rows.chosen(a, 1, 2), np.shape(a))
        assert np.array_equal(chosen, np.where(a, 1, 2))


def test_errors_in_order() -> None:
    """The first error of each row counts."""
    first, second = np.array([0, 3, 0]), np.array([4, 5, 0])
    assert rows.earlier(first, second).tolist() == [4, 3, 0]
    assert rows.earlier(0, second) is second
