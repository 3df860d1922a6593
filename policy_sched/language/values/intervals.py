"""Intervals of numbers: what the compiler knows about a value before any pod or node exists.

Theory of operation. An `Interval` is the set of numbers from ``lo`` to ``hi``, both included, and
NaN if ``nan``. Bounds of ints are Python ints (exact), bounds of doubles are floats, which may be
infinite. Every function here is sound: the result holds every value that the operation can have
on members of its arguments. Int results are not cut to int64; `fits` returns whether they fit.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
#: Doubles hold every int up to this size exactly.
EXACT: Final = 2**53
#: Relative room for the rounding of a few double operations.
_SLACK: Final = 2.0**-50


class Interval(msgspec.Struct, frozen=True):
    """All numbers from ``lo`` to ``hi``, and NaN if ``nan``."""

    lo: float
    hi: float
    nan: bool = False

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi}]"

    def within(self, lo: float, hi: float) -> bool:
        """Return whether every member is a number from ``lo`` to ``hi``."""
        return not self.nan and lo <= self.lo and self.hi <= hi

    def has(self, number: float) -> bool:
        """Return whether ``number`` may be a member."""
        return self.lo <= number <= self.hi


INT64: Final = Interval(INT_MIN, INT_MAX)
BOOLS: Final = Interval(0, 1)
DOUBLES: Final = Interval(-math.inf, math.inf, nan=True)


def point(number: float) -> Interval:
    """Return the interval of one number."""
    if isinstance(number, float) and math.isnan(number):
        return DOUBLES
    return Interval(number, number)


def hull(a: Interval, b: Interval) -> Interval:
    """Return the least interval that holds both."""
    return Interval(min(a.lo, b.lo), max(a.hi, b.hi), a.nan or b.nan)


def meet(a: Interval, b: Interval) -> Interval:
    """Return what both hold; where they contradict each other (dead code), the second."""
    lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
    return b if lo > hi else Interval(lo, hi, a.nan and b.nan)


def fits(a: Interval) -> bool:
    """Return whether an int of this range cannot overflow."""
    return a.lo >= INT_MIN and a.hi <= INT_MAX


def cut(a: Interval) -> Interval:
    """Return what of an int range lies within int64."""
    return meet(a, INT64) if not fits(a) else a


def exact(a: Interval) -> bool:
    """Return whether every int of this range is also a double."""
    return a.within(-EXACT, EXACT)


def add(a: Interval, b: Interval) -> Interval:
    """Return the range of a + b over ints."""
    return Interval(a.lo + b.lo, a.hi + b.hi)


def sub(a: Interval, b: Interval) -> Interval:
    """Return the range of a - b over ints."""
    return Interval(a.lo - b.hi, a.hi - b.lo)


def mul(a: Interval, b: Interval) -> Interval:
    """Return the range of a * b over ints."""
    corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Interval(min(corners), max(corners))


def truncated(a: int, b: int) -> int:
    """Return a / b truncated towards zero; b is not zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def quotient(a: Interval, b: Interval) -> Interval:
    """Return the range of the truncated a / b over ints, without zero divisors."""
    divisors = {int(x) for x in (b.lo, b.hi) if x != 0}
    divisors |= {x for x in (-1, 1) if b.has(x)}
    if not divisors:
        return Interval(0, 0)
    corners = [truncated(int(x), y) for x in (a.lo, a.hi) for y in divisors]
    if a.has(0):
        corners.append(0)
    return Interval(min(corners), max(corners))


def remainder(a: Interval, b: Interval) -> Interval:
    """Return the range of a % b over ints: the dividend's sign, below the divisor's size."""
    size = max(abs(b.lo), abs(b.hi), 1) - 1
    return Interval(max(-size, min(a.lo, 0)), min(size, max(a.hi, 0)))


def negate(a: Interval) -> Interval:
    """Return the range of -a."""
    return Interval(-a.hi, -a.lo, a.nan)


def magnitude(a: Interval) -> Interval:
    """Return the range of |a|."""
    lo = 0 if a.has(0) else min(abs(a.lo), abs(a.hi))
    return Interval(lo, max(abs(a.lo), abs(a.hi)), a.nan)


def least(a: Interval, b: Interval) -> Interval:
    """Return the range of ``b if b < a else a``: a NaN in b is passed over, one in a stays."""
    return Interval(min(a.lo, b.lo), a.hi if b.nan else min(a.hi, b.hi), a.nan)


def greatest(a: Interval, b: Interval) -> Interval:
    """Return the range of ``b if b > a else a``: a NaN in b is passed over, one in a stays."""
    return Interval(a.lo if b.nan else max(a.lo, b.lo), max(a.hi, b.hi), a.nan)


def to_double(a: Interval) -> Interval:
    """Return the range of an int as a double."""
    return Interval(float(a.lo), float(a.hi))


def to_int(a: Interval) -> Interval:
    """Return the range of a double truncated to an int, as far as it is an int64."""
    lo = math.trunc(a.lo) if a.lo > INT_MIN else INT_MIN
    hi = math.trunc(a.hi) if a.hi < INT_MAX else INT_MAX
    return Interval(min(lo, INT_MAX), max(hi, INT_MIN))


def _hull_of(corners: list[float], *, nan: bool) -> Interval:
    if any(math.isnan(c) for c in corners):
        return DOUBLES
    return Interval(min(corners), max(corners), nan)


def _infinite(a: Interval) -> bool:
    return math.isinf(a.lo) or math.isinf(a.hi)


def double_add(a: Interval, b: Interval) -> Interval:
    """Return the range of a + b over doubles."""
    nan = a.nan or b.nan or (_infinite(a) and _infinite(b))
    return _hull_of([a.lo + b.lo, a.hi + b.hi], nan=nan)


def double_sub(a: Interval, b: Interval) -> Interval:
    """Return the range of a - b over doubles."""
    return double_add(a, negate(b))


def double_mul(a: Interval, b: Interval) -> Interval:
    """Return the range of a * b over doubles."""
    if _infinite(a) or _infinite(b):
        return DOUBLES
    return _hull_of([x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)], nan=a.nan or b.nan)


def double_div(a: Interval, b: Interval) -> Interval:
    """Return the range of a / b over doubles; a divisor that may be zero gives anything."""
    if b.has(0.0) or _infinite(a) or _infinite(b):
        return DOUBLES
    return _hull_of([x / y for x in (a.lo, a.hi) for y in (b.lo, b.hi)], nan=a.nan or b.nan)


def about(a: Interval) -> Interval:
    """Return the range of whole numbers next to members of a double range."""
    lo = a.lo if math.isinf(a.lo) else float(math.floor(a.lo - 0.5))
    hi = a.hi if math.isinf(a.hi) else float(math.ceil(a.hi + 0.5))
    return Interval(lo, hi, a.nan)


def rounded(a: Interval) -> Interval:
    """Return the range of the whole numbers that are nearest to members of a double range."""
    lo = a.lo if math.isinf(a.lo) else float(math.ceil(a.lo - 0.5))
    hi = a.hi if math.isinf(a.hi) else float(math.floor(a.hi + 0.5))
    return Interval(lo, hi, a.nan)


def mean(a: Interval) -> Interval:
    """Return the range of a mean of members of a (0.0 where there are none)."""
    if a.nan or _infinite(a):
        return DOUBLES
    lo, hi = float(a.lo), float(a.hi)
    return Interval(min(lo - abs(lo) * _SLACK, 0.0), max(hi + abs(hi) * _SLACK, 0.0))


def deviation(a: Interval, size: int | None) -> Interval:
    """Return the range of the population standard deviation of ``size`` members of a.

    It is at most half the range's width. For two elements that is exact; for more, rounding may
    add a little. ``size`` is the largest possible number of elements, None if it is not known.
    """
    if a.nan or _infinite(a):
        return DOUBLES
    half = (float(a.hi) - float(a.lo)) / 2
    room = 0.0 if size is not None and size <= 2 else max(abs(a.lo), abs(a.hi), half) * _SLACK
    return Interval(0.0, half + room)
