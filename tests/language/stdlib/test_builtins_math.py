"""Functions of the standard library over numbers, compared with exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.stdlib.builtins_math import TOTAL, beta_cdf


def binomial_tail(x: Fraction, alpha: int, beta: int) -> Fraction:
    """Return the distribution function for whole shapes: a sum of binomial probabilities."""
    n = alpha + beta - 1
    return sum(
        (math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(alpha, n + 1)), Fraction()
    )


@given(st.integers(0, 64), st.integers(1, 60), st.integers(1, 60))
def test_the_beta_distribution_is_exact_to_twelve_digits(step: int, alpha: int, beta: int) -> None:
    """For whole shapes the distribution function is a finite sum."""
    x = Fraction(step, 64)
    exact = float(binomial_tail(x, alpha, beta))
    assert beta_cdf(float(x), alpha, beta) == pytest.approx(exact, rel=1e-11, abs=1e-15)


@given(
    st.floats(0, 1),
    st.floats(1e-3, 1e6, allow_subnormal=False),
    st.floats(1e-3, 1e6, allow_subnormal=False),
)
def test_both_tails_of_the_beta_distribution_add_up(x: float, alpha: float, beta: float) -> None:
    """P(X <= x) with the shapes exchanged is the probability of the other tail."""
    low, high = beta_cdf(x, alpha, beta), beta_cdf(1 - x, beta, alpha)
    assert 0 <= low <= 1
    if 1 - (1 - x) == x:
        assert low + high == pytest.approx(1, abs=1e-7)


def test_no_distribution_has_no_probability() -> None:
    """Shapes that are not above zero and finite, and no number, give NaN; beyond 0..1 is sure."""
    for arguments in (
        (0.5, 0.0, 1.0),
        (0.5, 1.0, -1.0),
        (0.5, math.inf, 1.0),
        (math.nan, 1.0, 1.0),
    ):
        assert math.isnan(beta_cdf(*arguments))
    assert (beta_cdf(-1.0, 2.0, 3.0), beta_cdf(7.0, 2.0, 3.0)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("number", "exponent", "power"),
    [
        (2.0, 10.0, 1024.0),
        (10.0, 400.0, math.inf),
        (-10.0, 401.0, -math.inf),
        (-10.0, 400.0, math.inf),
        (0.0, -1.0, math.inf),
        (-0.0, -1.0, -math.inf),
        (-0.0, -2.0, math.inf),
    ],
)
def test_powers_beyond_the_doubles_are_infinite(
    number: float, exponent: float, power: float
) -> None:
    """As IEEE 754 has them, with their sign; never an exception."""
    assert TOTAL["math_pow_double_double"](number, exponent) == power


def test_a_root_of_a_negative_number_is_not_a_number() -> None:
    """A fractional power and a logarithm below zero are NaN."""
    assert math.isnan(TOTAL["math_pow_double_double"](-8.0, 1 / 3))
    assert math.isnan(TOTAL["math_log_double"](-1.0))
    assert TOTAL["math_log_double"](0.0) == -math.inf
