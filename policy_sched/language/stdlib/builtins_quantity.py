"""Builtins of quantities and of semantic versions (semver.org 2.0, precedence by its item 11).

A quantity literal is a `Fraction`, in billionths at the finest. An amount of a resource is an int
of its units; ``scale`` is how many of these make one.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from policy_sched.language import values
from policy_sched.language.runtime import int64
from policy_sched.language.stdlib.builtins_math import double_quotient, maybe
from policy_sched.model import parse as parse_quantity

_NUMBER: Final = r"(0|[1-9][0-9]*)"
_EXACT: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?")
#: Characters of a text that is read as a version.
_MAX_TEXT: Final = 1_024
#: A number of a version with more digits does not fit int64.
_DIGITS: Final = 19
_LABEL: Final = re.compile(r"0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*")


class Version(msgspec.Struct, frozen=True):
    """A version; ``order`` compares as the versions do."""

    major: int
    minor: int
    patch: int
    order: tuple[Any, ...]


def version(text: str, normalize: bool = False) -> Version:
    """Read a version; ``normalize`` also takes "v1.36". Fault: conversion."""
    if len(text) > _MAX_TEXT:
        raise values.Fault(values.CONVERSION)
    if normalize and (loose := _LOOSE.fullmatch(text)):
        text = ".".join((n or "").lstrip("0") or "0" for n in loose.groups()[:3]) + (loose[4] or "")
    match = _EXACT.fullmatch(text)
    if match is None:
        raise values.Fault(values.CONVERSION)
    labels = match[4].split(".") if match[4] else []
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise values.Fault(values.CONVERSION)
    if max(map(len, match.groups()[:3])) > _DIGITS:
        raise values.Fault(values.CONVERSION)
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    if max(numbers) > values.INT_MAX:
        raise values.Fault(values.CONVERSION)
    # A longer number is a greater one: labels have no zeros in front.
    ranks = tuple((0, len(x), x) if x.isdigit() else (1, 0, x) for x in labels)
    return Version(*numbers, (*numbers, not labels, ranks))


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        version(text, normalize)
    except values.Fault:
        return False
    return True


Function = Callable[..., Any]
_NANO: Final = 10**9


def fraction_of_text(text: str) -> Fraction:
    """Return the exact amount of a quantity's text; fault: conversion."""
    try:
        parsed = parse_quantity(text)
    except ValueError:
        raise values.Fault(values.CONVERSION) from None
    return Fraction(parsed.nanos, _NANO)


def units_of_fraction(amount: Fraction, scale: int) -> int:
    """Return an amount in units of 1/scale, rounded away from zero as resource.Quantity does."""
    number, parts = amount.as_integer_ratio()
    number *= scale
    return -(-number // parts) if number >= 0 else number // parts


def units_in(amount: Fraction, scale: int) -> int:
    """Return an amount in units of 1/scale as `units_of_fraction`; fault: overflow."""
    return int64(units_of_fraction(amount, scale))


def _nanos(amount: Fraction) -> int:
    """Return an amount without a unit in billionths: the finest that a quantity's text can be."""
    return int(amount * _NANO)


def _free_quotient(amount: Fraction, divisor: int) -> Fraction:
    if divisor == 0:
        raise values.Fault(values.DIVIDE_BY_ZERO)
    return Fraction(values.truncated(_nanos(amount), divisor), _NANO)


def _free_percent(part: Fraction, whole: Fraction) -> int:
    if whole <= 0:
        return 0
    return min(max(values.truncated(_nanos(part) * 100, _nanos(whole)), 0), 100)


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
    """Return whether units make a whole number."""
    return number % scale == 0


def whole_or_fault(number: int, scale: int) -> int:
    """Return units as the whole number that they make; fault: conversion."""
    if number % scale:
        raise values.Fault(values.CONVERSION)
    return number // scale


def double_of_units(number: int, scale: int) -> float:
    """Return the double nearest to an amount."""
    return number / scale


def is_quantity(text: str) -> bool:
    """Return whether a text is a quantity."""
    return maybe(fraction_of_text)(text) is not None


def _double(amount: Fraction | int) -> float:
    """Return the double nearest to an amount; an infinity beyond them."""
    try:
        return float(amount)
    except OverflowError:
        return math.inf if amount > 0 else -math.inf


def _as_integer(amount: Fraction) -> int:
    if amount.denominator != 1:
        raise values.Fault(values.CONVERSION)
    return int64(amount.numerator)


#: Builtins that never fault.
TOTAL: Final[dict[str, Function]] = {
    "tryQuantity_string": maybe(fraction_of_text),
    "isQuantity_string": is_quantity,
    "trySemver_string": maybe(lambda text: version(text, True)),
    "isSemver_string": _is_version,
    "isSemver_string_bool": _is_version,
    "major_semver": lambda v: v.major,
    "minor_semver": lambda v: v.minor,
    "patch_semver": lambda v: v.patch,
    "compareTo_semver_semver": lambda a, b: (a.order > b.order) - (a.order < b.order),
    "isLessThan_semver_semver": lambda a, b: a.order < b.order,
    "isGreaterThan_semver_semver": lambda a, b: a.order > b.order,
}
#: Builtins that may fault.
PARTIAL: Final[dict[str, Function]] = {
    "semver_string": version,
    "semver_string_bool": version,
}
#: Builtins over the exact amounts of quantities that have no unit yet.
FREE_TOTAL: Final[dict[str, Function]] = {
    "sign_quantity": lambda q: (q > 0) - (q < 0),
    "isInteger_quantity": lambda q: q.denominator == 1 and values.INT_MIN <= q <= values.INT_MAX,
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
