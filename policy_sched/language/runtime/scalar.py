"""Arithmetic of generated functions for one row, where Python differs from CEL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from policy_sched.language.values import INT_MAX, INT_MIN, OVERFLOW, Fault, truncated

Function = Callable[..., Any]


def safe(function: Function, default: object, site: int, *args: object) -> tuple[object, int]:
    """Call ``function``; a `Fault` becomes (default, its site)."""
    try:
        return function(*args), 0
    except Fault as fault:
        return default, site + fault.kind - 1


def checked(number: int, site: int) -> tuple[int, int]:
    """Return (number, 0), or (0, site) outside of int64."""
    if INT_MIN <= number <= INT_MAX:
        return number, 0
    return 0, site


def quotient(a: int, b: int) -> int:
    """Return a / b truncated towards zero; 0 for what is an error."""
    if b == 0 or (b == -1 and a == INT_MIN):
        return 0
    return truncated(a, b)


def remainder(a: int, b: int) -> int:
    """Return a % b with the sign of a; 0 for what is an error."""
    if b == 0:
        return 0
    size = abs(a) % abs(b)
    return -size if a < 0 else size


def percent(part: int, whole: int) -> int:
    """Return part * 100 / whole within 0..100; 0 where whole <= 0."""
    if whole <= 0 or part <= 0:
        return 0
    return 100 if part >= whole else part * 100 // whole


def table_at(table: list[int], position: int) -> int:
    """Return the entry of a table at a position; any entry for a position outside of it."""
    return table[min(max(position, 0), len(table) - 1)]


def divide_by_zero(a: float, b: float) -> float:
    """Return a / b for a zero b, as IEEE 754 has it."""
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def int_of_double(number: float, site: int) -> tuple[int, int]:
    """Return (truncated, 0), or (0, error); ``site`` is overflow's, not_finite's is 4 further."""
    if -(2.0**63) < number < 2.0**63:
        return int(number), 0
    return 0, site if math.isfinite(number) else site + 4


def round_half_away(number: float) -> float:
    """Return the nearest whole number, halves away from zero; keeps the sign of a zero."""
    if not math.isfinite(number):
        return number
    whole = float(math.trunc(number))
    if abs(number - whole) >= 0.5:
        whole += math.copysign(1.0, number)
    return math.copysign(whole, number)


def compact(*pairs: object) -> list[object]:
    """Return the values of (mask, value, mask, value, ...) whose mask is true."""
    return [pairs[i + 1] for i in range(0, len(pairs), 2) if pairs[i]]


def count_masked(*masks: bool) -> int:
    """Return how many masks are true."""
    return sum(masks)


def mean(values: list[float]) -> float:
    """Return the arithmetic mean, summed in order; 0.0 of nothing."""
    if not values:
        return 0.0
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def deviation(values: list[float]) -> float:
    """Return the population standard deviation as kube's BalancedAllocation computes it."""
    if len(values) < 2:
        return 0.0
    if len(values) == 2:
        return abs(values[0] - values[1]) / 2
    middle = mean(values)
    total = 0.0
    for value in values:
        total += (value - middle) * (value - middle)
    return math.sqrt(total / len(values))


def mean_masked(*pairs: Any) -> float:
    """Return the mean of the values whose mask is true; arguments as `compact`."""
    return mean([pairs[i + 1] for i in range(0, len(pairs), 2) if pairs[i]])


def deviation_masked(*pairs: Any) -> float:
    """Return the deviation of the values whose mask is true; arguments as `compact`."""
    return deviation([pairs[i + 1] for i in range(0, len(pairs), 2) if pairs[i]])


def weighted_masked(*triples: Any) -> int:
    """Return sum(v*w) / sum(w) over (mask, value, weight, ...), truncated; 0 if sum(w) is 0.

    Only used where ranges exclude overflow and negative weights.
    """
    upper = whole = 0
    for i in range(0, len(triples), 3):
        if triples[i]:
            upper += triples[i + 1] * triples[i + 2]
            whole += triples[i + 2]
    if upper < 0:
        return quotient(upper, whole)
    return upper // whole if whole else 0


def int64(number: int) -> int:
    """Return ``number``, or raise the overflow fault outside of int64."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise Fault(OVERFLOW)
