"""The values and errors of the oracle, the plain second implementation of the rule language.

Theory of operation. The oracle computes on plain Python values: bool, int, float, str, list
and dict for themselves, int nanoseconds for durations and timestamps, and the classes below.
An error of the language is a raised `OracleError`. Nothing here looks at the compiler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


class OracleError(Exception):
    """An error of the language, named as in the catalogue's PS601 to PS607."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional: ``present`` tells whether ``value`` means anything."""

    present: bool
    value: object = None


ABSENT: Final = Optional(present=False)


def some(value: object) -> Optional:
    """Return the optional that holds ``value``."""
    return Optional(present=True, value=value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount (cores, bytes or pieces); ``free`` ones are literals without a unit yet."""

    amount: Fraction
    dimension: str

    @property
    def scale(self) -> int:
        """Scheduler units per one: 1000 for cpu, else 1."""
        return 1000 if self.dimension == "cpu" else 1

    @property
    def units(self) -> int:
        """The amount in scheduler units, rounded away from zero as resource.Quantity does."""
        return round_away(self.amount * self.scale)


def round_away(number: Fraction) -> int:
    """Round to an integer, away from zero."""
    return math.ceil(number) if number >= 0 else math.floor(number)


def quantity_of_units(units: int, dimension: str) -> Quantity:
    """Return the quantity of ``units`` scheduler units; out of int64 is an overflow."""
    if not INT_MIN <= units <= INT_MAX:
        raise OracleError("overflow")
    return Quantity(Fraction(units, 1000 if dimension == "cpu" else 1), dimension)


def aligned(left: Quantity, right: Quantity) -> tuple[int, int, str]:
    """Return both in the unit of the one that has a dimension: a literal takes its unit.

    Two literals are in nano-units, the finest that a literal can have.
    """
    dimension = right.dimension if left.dimension == "free" else left.dimension
    if dimension == "free":
        return int(left.amount * 10**9), int(right.amount * 10**9), dimension
    return (
        int64(Quantity(left.amount, dimension).units),
        int64(Quantity(right.amount, dimension).units),
        dimension,
    )


def int64(number: int) -> int:
    """Return ``number``, or the overflow error outside int64."""
    if not INT_MIN <= number <= INT_MAX:
        raise OracleError("overflow")
    return number


def truncated_quotient(dividend: int, divisor: int) -> int:
    """Divide as CEL: truncated toward zero; zero divisors and minInt/-1 are errors."""
    if divisor == 0:
        raise OracleError("divide_by_zero")
    quotient = abs(dividend) // abs(divisor)
    return int64(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def truncated_remainder(dividend: int, divisor: int) -> int:
    """Return the remainder with the dividend's sign; a zero divisor is an error."""
    if divisor == 0:
        raise OracleError("divide_by_zero")
    if dividend == INT_MIN and divisor == -1:
        raise OracleError("overflow")
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


def double_quotient(dividend: float, divisor: float) -> float:
    """Divide as IEEE 754 does: by zero gives an infinity or NaN, never an error."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def int_of_double(number: float) -> int:
    """Truncate toward zero; NaN and infinities are not_finite, out of int64 an overflow.

    So is the smallest int64 itself, which CEL's conversion leaves out.
    """
    if not math.isfinite(number):
        raise OracleError("not_finite")
    if number == INT_MIN:
        raise OracleError("overflow")
    return int64(int(number))


def equal(left: object, right: object) -> bool:
    """Compare two values of one type as ``==`` does; NaN is unequal to itself, also inside."""
    match left, right:
        case Quantity(), Quantity():
            first, second, _ = aligned(left, right)
            return first == second
        case list(), list():
            return len(left) == len(right) and all(map(equal, left, right))
        case dict(), dict():
            return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
        case Optional(), Optional():
            if not (left.present and right.present):
                return left.present == right.present
            return equal(left.value, right.value)
    if isinstance(left, float) and math.isnan(left):
        return False
    return bool(left == right)
