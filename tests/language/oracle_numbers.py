"""The oracle's arithmetic, conversions, math and quantities, by overload id."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from policy_sched.language.stdlib.builtins_math import beta_cdf

from . import oracle_lists as lists, oracle_text as text, oracle_time as time
from .oracle_values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    Optional,
    OracleError,
    Quantity,
    aligned,
    double_quotient,
    int64,
    int_of_double,
    quantity_of_units,
    round_away,
    some,
    truncated_quotient,
    truncated_remainder,
)

Function = Callable[..., Any]

SUFFIXES: Final = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{s: Fraction(1000) ** i for i, s in enumerate("kMGTPE", 1)},
    **{s + "i": Fraction(1024) ** i for i, s in enumerate("KMGTPE", 1)},
}


def quantity_of_text(literal: str) -> Quantity:
    """Read the notation of resource.Quantity; anything finer than nano rounds away from zero.

    As in Go, digits that are left out are zeros: ``k`` is 0.
    """
    found = re.fullmatch(r"([+-]?)([0-9]*)\.?([0-9]*)([numkKMGTPEi]*|[eE][+-]?[0-9]+)", literal)
    if found is None or not literal:
        raise OracleError("conversion")
    sign, whole, part, suffix = found.groups()
    if suffix in SUFFIXES:
        scale = SUFFIXES[suffix]
    elif suffix[0] in "eE" and len(suffix) > 1:
        scale = Fraction(10) ** int(suffix[1:])
    else:
        raise OracleError("conversion")
    amount = Fraction(f"0{whole}.{part}0") * scale
    amount = Fraction(round_away(amount * 10**9), 10**9)
    if suffix.endswith("i"):
        amount = min(amount, Fraction(INT_MAX))
    return Quantity(-amount if sign == "-" else amount, "free")


def _attempt(function: Function) -> Function:
    def tried(literal: str, *args: str) -> Optional:
        try:
            return some(function(literal, *args))
        except OracleError:
            return ABSENT

    return tried


def _is(function: Function) -> Function:
    return lambda literal: _attempt(function)(literal).present


def double_of_text(literal: str) -> float:
    """Read Go's ParseFloat notation."""
    number = r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?)"
    if not re.fullmatch(number + r"|[+-]?(?i:inf|infinity|nan)", literal, re.ASCII):
        raise OracleError("conversion")
    value = float(literal)
    if math.isinf(value) and "n" not in literal.lower():
        raise OracleError("conversion")
    return value


def quantity_sum(left: Quantity, right: Quantity | int, sign: int = 1) -> Quantity:
    """Add (or subtract) in the scheduler unit of the one that has a dimension."""
    if isinstance(right, int):
        right = Quantity(Fraction(right), "free")
    if left.dimension == right.dimension == "free":
        return Quantity(left.amount + sign * right.amount, "free")
    first, second, dimension = aligned(left, right)
    return quantity_of_units(first + sign * second, dimension)


def quantity_product(quantity: Quantity, times: int) -> Quantity:
    """Multiply by an int; beyond int64 units is an overflow."""
    if quantity.dimension == "free":
        return Quantity(quantity.amount * times, "free")
    return quantity_of_units(quantity.units * times, quantity.dimension)


def quantity_quotient(quantity: Quantity, parts: int) -> Quantity:
    """Divide by an int, truncated in the scheduler unit; of a literal, in billionths."""
    if quantity.dimension == "free":
        if parts == 0:
            raise OracleError("divide_by_zero")
        return Quantity(Fraction(int(quantity.amount / parts * 10**9), 10**9), "free")
    return quantity_of_units(truncated_quotient(quantity.units, parts), quantity.dimension)


def ratio(left: Quantity, right: Quantity) -> float:
    """Divide two quantities as doubles."""
    first, second, _ = aligned(left, right)
    return double_quotient(float(first), float(second))


def as_integer(quantity: Quantity) -> int:
    """Return a whole number, or the conversion error."""
    if quantity.amount.denominator != 1:
        raise OracleError("conversion")
    return int64(quantity.amount.numerator)


def half_away(number: float) -> float:
    """Round halves away from zero."""
    if not math.isfinite(number):
        return number
    whole = math.trunc(number)
    if abs(number - whole) >= 0.5:
        whole += 1 if number > 0 else -1
    return math.copysign(float(whole), number)


def _toward(rounding: Callable[[float], int]) -> Function:
    def rounded(number: float) -> float:
        return math.copysign(float(rounding(number)), number) if math.isfinite(number) else number

    return rounded


def sign_of(number: Any) -> Any:
    """Return -1, 0 or 1 in the number's own type; NaN for NaN."""
    if isinstance(number, float):
        return number if math.isnan(number) or number == 0 else math.copysign(1.0, number)
    return (number > 0) - (number < 0)


def shifted(number: int, distance: int, *, left: bool) -> int:
    """Shift the 64 bits as an unsigned word; a negative distance is an error."""
    if distance < 0:
        raise OracleError("conversion")
    if distance >= 64:
        return 0
    word = number & (2**64 - 1)
    return wrapped(word << distance if left else word >> distance)


def wrapped(number: int) -> int:
    """Take 64 bits as a two's complement number."""
    word = number & (2**64 - 1)
    return word - 2**64 if word > INT_MAX else word


def magnitude(number: Any) -> Any:
    """Return the absolute value; that of the smallest int is an overflow."""
    if isinstance(number, Quantity):
        return number if number.amount >= 0 else negated(number)
    return abs(number) if isinstance(number, float) else int64(abs(number))


def negated(quantity: Quantity) -> Quantity:
    """Return the negated quantity; that of the smallest int64 is an overflow."""
    if quantity.dimension == "free":
        return Quantity(-quantity.amount, "free")
    return quantity_of_units(-quantity.units, quantity.dimension)


def percent(part: Any, whole: Any) -> int:
    """Apply percent to two ints, or to two quantities in their common unit."""
    if isinstance(part, Quantity):
        if part.dimension == whole.dimension == "free":  # exact: nothing can overflow
            share = part.amount * 100 / whole.amount if whole.amount > 0 else 0
            return min(max(int(share), 0), 100)
        part, whole, _ = aligned(part, whole)
    return lists.percent(part, whole)


def clamped(number: Any, low: Any, high: Any) -> Any:
    """Return min(max(number, low), high)."""
    return lists.extreme([lists.extreme([number, low], 1), high], -1)


def exponential(number: float) -> float:
    """Return e to the power of a number; infinity beyond the doubles."""
    return math.inf if number > 709.782712893384 else math.exp(number)


def logarithm(number: float) -> float:
    """Return the natural logarithm; minus infinity for zero, NaN below."""
    return math.nan if not number >= 0 else -math.inf if number == 0 else math.log(number)


def power(number: float, exponent: float) -> float:
    """Return a power as IEEE 754 has it."""
    with np.errstate(all="ignore"):
        return float(np.float64(number) ** np.float64(exponent))


def root(number: float) -> float:
    """Return the square root; NaN below zero."""
    return math.nan if number < 0 else math.sqrt(number)


def remainder(left: int, right: int) -> int:
    """Return ``left % right``; the smallest int by -1 has no representable quotient."""
    return truncated_remainder(left, right)


CALLS: Final[dict[str, Function]] = {
    **{f"add_{t}_{t}": lists.add for t in ("int", "double", "string", "list")},
    "add_quantity_quantity": quantity_sum,
    "add_quantity_int": quantity_sum,
    "sub_quantity_quantity": lambda a, b: quantity_sum(a, b, -1),
    "sub_quantity_int": lambda a, b: quantity_sum(a, b, -1),
    "add_timestamp_duration": lambda a, b: time.in_calendar(a + b),
    "add_duration_timestamp": lambda a, b: time.in_calendar(a + b),
    "sub_timestamp_duration": lambda a, b: time.in_calendar(a - b),
    "add_duration_duration": lambda a, b: time.in_duration(a + b),
    "sub_duration_duration": lambda a, b: time.in_duration(a - b),
    "sub_timestamp_timestamp": lambda a, b: time.in_duration(a - b),
    "sub_int_int": lambda a, b: int64(a - b),
    "mul_int_int": lambda a, b: int64(a * b),
    "div_int_int": truncated_quotient,
    "mod_int_int": remainder,
    "sub_double_double": operator.sub,
    "mul_double_double": operator.mul,
    "div_double_double": double_quotient,
    "mul_quantity_int": quantity_product,
    "mul_int_quantity": lambda n, q: quantity_product(q, n),
    "div_quantity_int": quantity_quotient,
    "div_quantity_quantity": ratio,
    "neg_int": lambda n: int64(-n),
    "neg_double": operator.neg,
    "neg_quantity": negated,
    "not_bool": operator.not_,
    **{
        f"{f}_{t}": lambda x: x
        for f, t in zip(
            *[("int", "double", "string", "bool", "duration", "timestamp")] * 2, strict=True
        )
    },
    "int_double": int_of_double,
    "int_string": text.int_of_text,
    "int_timestamp": time.int_of_timestamp,
    "double_int": float,
    "double_string": double_of_text,
    "string_bool": lambda b: "true" if b else "false",
    "string_int": str,
    "string_double": text.text_of_double,
    "string_timestamp": time.text_of_timestamp,
    "string_duration": time.text_of_duration,
    "bool_string": text.bool_of_text,
    "duration_string": time.duration_of_text,
    "timestamp_string": time.timestamp_of_text,
    "timestamp_int": lambda n: time.in_calendar(n * time.SECOND),
    "tryInt_string": _attempt(text.int_of_text),
    "tryDouble_string": _attempt(double_of_text),
    "tryQuantity_string": _attempt(quantity_of_text),
    "tryTimestamp_string": _attempt(time.timestamp_of_text),
    "tryTimestamp_string_string": _attempt(time.timestamp_in_layout),
    "tryDuration_string": _attempt(time.duration_of_text),
    "quantity_string": quantity_of_text,
    "isQuantity_string": _is(quantity_of_text),
    "compareTo_quantity_quantity": lists.compare,
    "isLessThan_quantity_quantity": lambda a, b: lists.compare(a, b) < 0,
    "isGreaterThan_quantity_quantity": lambda a, b: lists.compare(a, b) > 0,
    "sign_quantity": lambda q: sign_of(q.amount.numerator),
    "isInteger_quantity": lambda q: q.amount.denominator == 1 and INT_MIN <= q.amount <= INT_MAX,
    "asInteger_quantity": as_integer,
    "asApproximateFloat_quantity": lambda q: float(q.amount),
    "units_quantity": lambda q: q.units,
    "value_quantity": lambda q: int64(round_away(q.amount)),
    "milli_quantity": lambda q: int64(round_away(q.amount * 1000)),
    "math_ceil_double": _toward(math.ceil),
    "math_floor_double": _toward(math.floor),
    "math_trunc_double": _toward(math.trunc),
    "math_round_double": half_away,
    **{f"{f}_{t}": magnitude for f in ("abs", "math_abs") for t in ("int", "double")},
    "abs_quantity": magnitude,
    "math_sign_int": sign_of,
    "math_sign_double": sign_of,
    "math_isNaN_double": math.isnan,
    "math_isInf_double": math.isinf,
    "math_isFinite_double": math.isfinite,
    "math_exp_double": exponential,
    "math_log_double": logarithm,
    "math_pow_double_double": power,
    # `stdlib/test_builtins_math.py` compares it with exact sums.
    "math_betaCdf_double_double_double": beta_cdf,
    "math_sqrt_double": root,
    "math_sqrt_int": lambda n: root(float(n)),
    "math_bitAnd_int_int": operator.and_,
    "math_bitOr_int_int": operator.or_,
    "math_bitXor_int_int": operator.xor,
    "math_bitNot_int": operator.invert,
    "math_bitShiftLeft_int_int": lambda n, d: shifted(n, d, left=True),
    "math_bitShiftRight_int_int": lambda n, d: shifted(n, d, left=False),
    **{f: lambda *ns: lists.extreme(ns, 1) for f in ("math_greatest_any", "max_any")},
    **{f: lambda *ns: lists.extreme(ns, -1) for f in ("math_least_any", "min_any")},
    "math_greatest_list": lambda ns: lists.extreme(ns, 1),
    "math_least_list": lambda ns: lists.extreme(ns, -1),
    "clamp_any_any_any": clamped,
    "percent_int_int": percent,
    "percent_quantity_quantity": percent,
    "interpolate_int_list": lists.interpolate,
    "interpolate_double_list": lists.interpolate,
}
