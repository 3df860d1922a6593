"""Kernels over quantities: exact amounts without a unit, and amounts whose unit comes along.

A literal is a `Fraction`, in billionths at the finest. An amount of a resource is an int of its
units; ``scale`` is how many of these make one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from policy_sched.language.runtime import int64
from policy_sched.language.stdlib.builtins_math import double_quotient, maybe
from policy_sched.language.values import (
    CONVERSION,
    DIVIDE_BY_ZERO,
    INT_MAX,
    INT_MIN,
    Fault,
    truncated,
)
from policy_sched.model import parse as parse_quantity

Function = Callable[..., Any]
_NANO: Final = 10**9


def fraction_of_text(text: str) -> Fraction:
    """Return the exact amount of a quantity's text; fault: conversion."""
    try:
        parsed = parse_quantity(text)
    except ValueError:
        raise Fault(CONVERSION) from None
    return Fraction(parsed.nanos, _NANO)


def units_of_fraction(amount: Fraction, scale: int) -> int:
    """Return an amount in units of 1/scale, rounded away from zero as resource.Quantity does."""
    scaled = amount * scale
    return math.ceil(scaled) if scaled >= 0 else math.floor(scaled)


def units_in(amount: Fraction, scale: int) -> int:
    """Return an amount in units of 1/scale as `units_of_fraction`; fault: overflow."""
    return int64(units_of_fraction(amount, scale))


def _nanos(amount: Fraction) -> int:
    """Return an amount without a unit in billionths: the finest that a quantity's text can be."""
    return int(amount * _NANO)


def _free_quotient(amount: Fraction, divisor: int) -> Fraction:
    if divisor == 0:
        raise Fault(DIVIDE_BY_ZERO)
    return Fraction(truncated(_nanos(amount), divisor), _NANO)


def _free_percent(part: Fraction, whole: Fraction) -> int:
    if whole <= 0:
        return 0
    return min(max(truncated(_nanos(part) * 100, _nanos(whole)), 0), 100)


def free_total(items: Sequence[Fraction]) -> Fraction:
    """Return the sum of amounts that have no unit."""
    return sum(items, Fraction(0))


# Amounts of a resource whose name, and so whose unit, is only known at run time.


def scale_of_resource(name: str) -> int:
    """Return how many of a resource's scheduler units make one."""
    return 1000 if name == "cpu" else 1


def whole_of_units(number: int, scale: int) -> int:
    """Return units as whole ones, rounded away from zero."""
    return -(-number // scale) if number >= 0 else number // scale


def thousandths_in(scale: int) -> int:
    """Return how many thousandths a unit is."""
    return 1000 // scale


def is_whole(number: int, scale: int) -> bool:
    """Tell whether units make a whole number."""
    return number % scale == 0


def whole_or_fault(number: int, scale: int) -> int:
    """Return units as the whole number that they make; fault: conversion."""
    if number % scale:
        raise Fault(CONVERSION)
    return number // scale


def double_of_units(number: int, scale: int) -> float:
    """Return the double nearest to an amount."""
    return number / scale


def is_quantity(text: str) -> bool:
    """Tell whether a text is a quantity."""
    return maybe(fraction_of_text)(text) is not None


def _double(amount: Fraction | int) -> float:
    """Return the double nearest to an amount; an infinity beyond them."""
    try:
        return float(amount)
    except OverflowError:
        return math.inf if amount > 0 else -math.inf


def _as_integer(amount: Fraction) -> int:
    if amount.denominator != 1:
        raise Fault(CONVERSION)
    return int64(amount.numerator)


#: Kernels that never fault.
TOTAL: Final[dict[str, Function]] = {
    "tryQuantity_string": maybe(fraction_of_text),
    "isQuantity_string": is_quantity,
}
#: Kernels that may fault.
PARTIAL: Final[dict[str, Function]] = {}
#: Kernels over the exact amounts of quantities that have no unit yet.
FREE_TOTAL: Final[dict[str, Function]] = {
    "sign_quantity": lambda q: (q > 0) - (q < 0),
    "isInteger_quantity": lambda q: q.denominator == 1 and INT_MIN <= q <= INT_MAX,
    "asApproximateFloat_quantity": _double,
    "neg_quantity": operator.neg,
    "abs_quantity": abs,
    "add_quantity_quantity": operator.add,
    "sub_quantity_quantity": operator.sub,
    "add_quantity_int": operator.add,
    "sub_quantity_int": operator.sub,
    "mul_quantity_int": operator.mul,
    "mul_int_quantity": operator.mul,
    "div_quantity_quantity": lambda a, b: double_quotient(_double(_nanos(a)), _double(_nanos(b))),
    "percent_quantity_quantity": _free_percent,
    "lt_quantity_quantity": operator.lt,
    "le_quantity_quantity": operator.le,
    "gt_quantity_quantity": operator.gt,
    "ge_quantity_quantity": operator.ge,
    "isLessThan_quantity_quantity": operator.lt,
    "isGreaterThan_quantity_quantity": operator.gt,
    "compareTo_quantity_quantity": lambda a, b: (a > b) - (a < b),
    "eq_any_any": operator.eq,
    "ne_any_any": operator.ne,
}
FREE_PARTIAL: Final[dict[str, Function]] = {
    "div_quantity_int": _free_quotient,
    "asInteger_quantity": _as_integer,
    "value_quantity": lambda q: int64(units_of_fraction(q, 1)),
    "milli_quantity": lambda q: int64(units_of_fraction(q, 1000)),
    "units_quantity": lambda q: int64(units_of_fraction(q, 1)),
}
