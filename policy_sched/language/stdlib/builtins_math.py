"""Builtins of numbers over plain Python values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from policy_sched.language import values
from policy_sched.language.runtime import divide_by_zero, int64, remainder, round_half_away

Function = Callable[..., Any]
_EDGE: Final = 2.0**63
#: Digits of the greatest int64.
_INT_DIGITS: Final = 19
#: Characters of the longest text that is read as a double; Python takes the square of its length.
_MAX_DOUBLE: Final = 4_096


def quotient(a: int, b: int) -> int:
    """Return a / b truncated; faults: divide_by_zero, overflow."""
    if b == 0:
        raise values.Fault(values.DIVIDE_BY_ZERO)
    return int64(values.truncated(a, b))


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise values.Fault(values.DIVIDE_BY_ZERO)
    if a == values.INT_MIN and b == -1:
        raise values.Fault(values.OVERFLOW)
    return remainder(a, b)


def double_quotient(a: float, b: float) -> float:
    """Return a / b as IEEE 754 has it."""
    return a / b if b else divide_by_zero(a, b)


def int_of_double(number: float) -> int:
    """Truncate; faults: not_finite, overflow (the least int64 too, as CEL has it)."""
    if not math.isfinite(number):
        raise values.Fault(values.NOT_FINITE)
    if not -_EDGE < number < _EDGE:
        raise values.Fault(values.OVERFLOW)
    return int(number)


def maybe(function: Function) -> Function:
    """Return a conversion that returns an optional: none where ``function`` fails."""

    def tried(text: str, *args: str) -> values.Some | None:
        try:
            return values.Some(function(text, *args))
        except values.Fault:
            return None

    return tried


def int_of_text(text: str) -> int:
    """Read a decimal int64; fault: conversion."""
    if text.isdigit() and text.isascii() and len(text) < _INT_DIGITS:
        return int(text)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise values.Fault(values.CONVERSION)
    if len(digits.lstrip("0")) > _INT_DIGITS:
        raise values.Fault(values.CONVERSION)
    number = int(digits.lstrip("0") or "0")
    number = -number if text[0] == "-" else number
    if not values.INT_MIN <= number <= values.INT_MAX:
        raise values.Fault(values.CONVERSION)
    return number


def double_of_text(text: str) -> float:
    """Read a double as Go's ParseFloat without its hexadecimal forms; fault: conversion."""
    if len(text) > _MAX_DOUBLE or "_" in text or text != text.strip() or not text.isascii():
        raise values.Fault(values.CONVERSION)
    try:
        number = float(text)
    except ValueError:
        raise values.Fault(values.CONVERSION) from None
    if math.isinf(number) and "i" not in text.lower():
        raise values.Fault(values.CONVERSION)
    return number


def text_of_double(number: float) -> str:
    """Print the shortest text that reads back, in Go's %g form."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1.0, number) < 0 else "0"
    mantissa, _, exponent = f"{number!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + part) - len((whole + part).lstrip("0")))
    digits = digits.rstrip("0")
    if not -4 < point <= 6:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return sign + digits + "0" * (point - len(digits))
    return f"{sign}{digits[:point]}.{digits[point:]}"


def bool_of_text(text: str) -> bool:
    """Read a bool; fault: conversion."""
    if text in ("true", "True", "TRUE", "t", "T", "1"):
        return True
    if text in ("false", "False", "FALSE", "f", "F", "0"):
        return False
    raise values.Fault(values.CONVERSION)


def _keeping_sign(function: Callable[[float], int]) -> Function:
    def kept(number: float) -> float:
        if not math.isfinite(number):
            return number
        return math.copysign(float(function(number)), number)

    return kept


def _sign_of_double(number: float) -> float:
    return number if number == 0 or math.isnan(number) else math.copysign(1.0, number)


def _root(number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


def _exp(number: float) -> float:
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def _log(number: float) -> float:
    if number == 0:
        return -math.inf
    return math.log(number) if number > 0 else math.nan


def _pow(number: float, exponent: float) -> float:
    try:
        return math.pow(number, exponent)
    except OverflowError:
        return -math.inf if number < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        # A fractional power of a negative number, or a negative power of zero.
        if number != 0:
            return math.nan
        return math.copysign(math.inf, number) if exponent % 2 == 1 else math.inf


_MOST_TERMS: Final = 1000
"""Of the continued fraction; it takes as many as the root of the greater shape, and a few."""
_TINY: Final = 1e-300


def beta_cdf(x: float, alpha: float, beta: float) -> float:
    """Return P(X <= x) of the beta distribution, the regularized incomplete beta function.

    By its continued fraction (DLMF 8.17.22), evaluated after Lentz. NaN unless both shapes are
    above zero and finite, or where x is NaN.
    """
    if not (0 < alpha < math.inf and 0 < beta < math.inf) or math.isnan(x):
        return math.nan
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(alpha + beta)
        - math.lgamma(alpha)
        - math.lgamma(beta)
        + alpha * math.log(x)
        + beta * math.log1p(-x)
    )
    # The fraction converges fast below the mean of the distribution; above, the other tail's does.
    if x < (alpha + 1) / (alpha + beta + 2):
        return min(front * _beta_fraction(x, alpha, beta) / alpha, 1.0)
    return max(1 - front * _beta_fraction(1 - x, beta, alpha) / beta, 0.0)


def _beta_fraction(x: float, alpha: float, beta: float) -> float:
    numerator, denominator = 1.0, 1 / _not_zero(1 - (alpha + beta) * x / (alpha + 1))
    value = denominator
    for m in range(1, _MOST_TERMS):
        at = alpha + 2 * m
        for term in (
            m * (beta - m) * x / ((at - 1) * at),
            -(alpha + m) * (alpha + beta + m) * x / (at * (at + 1)),
        ):
            denominator = 1 / _not_zero(1 + term * denominator)
            numerator = _not_zero(1 + term / numerator)
            step = denominator * numerator
            value *= step
        if abs(step - 1) < 1e-16:
            break
    return value


def _not_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY


def _word(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number > values.INT_MAX else number


def _shift_left(number: int, distance: int) -> int:
    if distance < 0:
        raise values.Fault(values.CONVERSION)
    return _word(number << distance) if distance < 64 else 0


def _shift_right(number: int, distance: int) -> int:
    if distance < 0:
        raise values.Fault(values.CONVERSION)
    return _word((number & (2**64 - 1)) >> distance) if distance < 64 else 0


def greatest(*numbers: Any) -> Any:
    """Return the first of the greatest arguments."""
    best = numbers[0]
    for number in numbers[1:]:
        best = max(best, number)
    return best


def least(*numbers: Any) -> Any:
    """Return the first of the least arguments."""
    best = numbers[0]
    for number in numbers[1:]:
        best = min(best, number)
    return best


def clamp(number: Any, low: Any, high: Any) -> Any:
    """Return the number, not below ``low`` and not above ``high``."""
    return least(greatest(number, low), high)


def percent(part: int, whole: int) -> int:
    """Return part * 100 / whole within 0..100; 0 where whole <= 0. Fault: overflow."""
    if whole <= 0:
        return 0
    return min(max(values.truncated(int64(part * 100), whole), 0), 100)


def interpolate(x: Any, shape: Sequence[Sequence[Any]]) -> Any:
    """Return the piecewise linear function through ``shape`` at x; level outside of it.

    Fault: conversion, of what `is_shape` does not hold for.
    """
    if not is_shape(shape):
        raise values.Fault(values.CONVERSION)
    before: Sequence[Any] | None = None
    for point in shape:
        if x <= point[0]:
            return point[1] if before is None else _between(x, before, point)
        before = point
    assert before is not None
    return before[1]


def is_shape(points: Sequence[Sequence[Any]]) -> bool:
    """Return whether there are points, and each is an x and a y, its x above the one before."""
    if not points or any(len(point) != 2 for point in points):
        return False
    return all(left[0] < right[0] for left, right in pairwise(points))


def _between(x: Any, left: Sequence[Any], right: Sequence[Any]) -> Any:
    (x0, y0), (x1, y1) = left, right
    if isinstance(x, int):
        return int64(y0 + quotient(int64(int64(y1 - y0) * int64(x - x0)), int64(x1 - x0)))
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def same(value: Any) -> Any:
    """Return the value itself."""
    return value


def _abs(number: Any) -> Any:
    return int64(abs(number)) if isinstance(number, int) else abs(number)


#: Builtins that never fault.
TOTAL: Final[dict[str, Function]] = {
    "add_double_double": operator.add,
    "sub_double_double": operator.sub,
    "mul_double_double": operator.mul,
    "div_double_double": double_quotient,
    "neg_double": operator.neg,
    "not_bool": operator.not_,
    **{f"{kind}_{kind}": same for kind in ("int", "double", "bool", "duration", "timestamp")},
    "string_string": same,
    "double_int": float,
    "string_bool": lambda flag: "true" if flag else "false",
    "string_int": str,
    "string_double": text_of_double,
    "tryInt_string": maybe(int_of_text),
    "tryDouble_string": maybe(double_of_text),
    "math_ceil_double": _keeping_sign(math.ceil),
    "math_floor_double": _keeping_sign(math.floor),
    "math_trunc_double": _keeping_sign(math.trunc),
    "math_round_double": round_half_away,
    "math_abs_double": abs,
    "abs_double": abs,
    "math_sign_int": lambda n: (n > 0) - (n < 0),
    "math_sign_double": _sign_of_double,
    "math_isNaN_double": math.isnan,
    "math_isInf_double": math.isinf,
    "math_isFinite_double": math.isfinite,
    "math_exp_double": _exp,
    "math_log_double": _log,
    "math_pow_double_double": _pow,
    "math_betaCdf_double_double_double": beta_cdf,
    "math_sqrt_double": _root,
    "math_sqrt_int": _root,
    "math_bitAnd_int_int": operator.and_,
    "math_bitOr_int_int": operator.or_,
    "math_bitXor_int_int": operator.xor,
    "math_bitNot_int": operator.invert,
    "math_greatest_any": greatest,
    "math_least_any": least,
    "max_any": greatest,
    "min_any": least,
    "clamp_any_any_any": clamp,
    **{
        f"{kind}_{left}_{right}": function
        for kind, function in (
            ("lt", operator.lt),
            ("le", operator.le),
            ("gt", operator.gt),
            ("ge", operator.ge),
        )
        for left, right in (
            ("int", "int"),
            ("int", "double"),
            ("double", "int"),
            ("double", "double"),
            ("string", "string"),
            ("bool", "bool"),
            ("duration", "duration"),
            ("timestamp", "timestamp"),
        )
    },
}
#: Builtins that may fault.
PARTIAL: Final[dict[str, Function]] = {
    "add_int_int": lambda a, b: int64(a + b),
    "sub_int_int": lambda a, b: int64(a - b),
    "mul_int_int": lambda a, b: int64(a * b),
    "div_int_int": quotient,
    "mod_int_int": _remainder,
    "neg_int": lambda a: int64(-a),
    "int_double": int_of_double,
    "int_string": int_of_text,
    "double_string": double_of_text,
    "bool_string": bool_of_text,
    "math_abs_int": _abs,
    "abs_int": _abs,
    "math_bitShiftLeft_int_int": _shift_left,
    "math_bitShiftRight_int_int": _shift_right,
    "percent_int_int": percent,
    "interpolate_int_list": interpolate,
    "interpolate_double_list": interpolate,
}
