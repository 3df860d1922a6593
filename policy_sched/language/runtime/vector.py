"""Operations that generated functions call for all rows at once; each equals its form in scalar.py.

Arguments are arrays with an element per row, or one number for every row. A list of masked values
is passed as (mask, value, mask, value, ...), or with a weight after each value. Arrays of victims
have the shape (depth, m), a column of victims for each of m nodes; a reduction goes along them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.language.runtime.context import Runtime
from policy_sched.language.runtime.scalar import percent
from policy_sched.language.values import INT_MAX, INT_MIN

#: An array of any dtype, or a number: which of them only the rule and the table decide.
Rows: TypeAlias = Any
Bools: TypeAlias = npt.NDArray[np.bool_]

_HALF: Final = 2.0**63


def as_ints(flags: Rows) -> Rows:
    """Return 1 for true and 0 for false."""
    if isinstance(flags, np.ndarray):
        return flags.astype(np.int64)
    return int(flags)


def to_double(numbers: Rows) -> Rows:
    """Return the nearest doubles."""
    if isinstance(numbers, np.ndarray):
        return numbers.astype(np.float64)
    return float(numbers)


def both(a: Rows, b: Rows) -> Rows:
    """Return where both hold."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def either(a: Rows, b: Rows) -> Rows:
    """Return where one of two holds."""
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return a | b


def opposite(a: Rows) -> Rows:
    """Return where something does not hold."""
    return not a if isinstance(a, bool) else np.logical_not(a)


def chosen(mask: Rows, a: Rows, b: Rows) -> Rows:
    """Return a where the mask holds, else b."""
    if isinstance(mask, bool):
        return a if mask else b
    if type(a) is int and type(b) is int and a == b:
        return a
    return np.where(mask, a, b)


def earlier(first: Rows, second: Rows) -> Rows:
    """Return the first error where there is one, else the second."""
    if isinstance(first, int) and not first:
        return second
    return np.where(first, first, second)


def _int64s(numbers: Rows) -> Rows:
    return np.asarray(numbers, dtype=np.int64)


def _ends(numbers: Rows) -> tuple[int, int]:
    """Return the least and the greatest of int64 numbers as Python ints."""
    if isinstance(numbers, int):
        return numbers, numbers
    return int(np.min(numbers, initial=INT_MAX)), int(np.max(numbers, initial=INT_MIN))


def add_checked(a: Rows, b: Rows, site: int) -> tuple[Rows, Rows]:
    """Return (a + b, error): the site where the sum leaves int64."""
    (least, most), (low, high) = _ends(a), _ends(b)
    if least + low >= INT_MIN and most + high <= INT_MAX:
        return np.add(a, b), 0
    a, b = _int64s(a), _int64s(b)
    total = a + b
    wrong = ((a ^ total) & (b ^ total)) < 0
    return np.where(wrong, 0, total), np.where(wrong, site, 0)


def sub_checked(a: Rows, b: Rows, site: int) -> tuple[Rows, Rows]:
    """Return (a - b, error): the site where the difference leaves int64."""
    (least, most), (low, high) = _ends(a), _ends(b)
    if least - high >= INT_MIN and most - low <= INT_MAX:
        return np.subtract(a, b), 0
    a, b = _int64s(a), _int64s(b)
    total = a - b
    wrong = ((a ^ b) & (a ^ total)) < 0
    return np.where(wrong, 0, total), np.where(wrong, site, 0)


def mul_checked(a: Rows, b: Rows, site: int) -> tuple[Rows, Rows]:
    """Return (a * b, error): the site where the product leaves int64."""
    if max(map(abs, _ends(a))) * max(map(abs, _ends(b))) <= INT_MAX:
        return np.multiply(a, b), 0
    a, b = _int64s(a), _int64s(b)
    total = a * b
    divisor = np.where((b == 0) | (b == -1), 1, b)
    wrong = np.where(b == -1, a == INT_MIN, total // divisor != a) & (b != 0)
    wrong |= (b != 0) & (b != -1) & (total % divisor != 0)
    return np.where(wrong, 0, total), np.where(wrong, site, 0)


def quotient_rows(a: Rows, b: Rows) -> Rows:
    """Return a / b truncated towards zero; 0 for what is an error."""
    a = _int64s(a)
    if np.min(b, initial=1) > 0 and np.min(a, initial=0) >= 0:
        return np.floor_divide(a, b)  # a third of the time, and the usual case
    b = _int64s(b)
    wrong = (b == 0) | ((b == -1) & (a == INT_MIN))
    divisor = np.where(wrong, 1, b)
    whole = np.floor_divide(a, divisor)
    rest = a - whole * divisor
    return np.where(wrong, 0, whole + ((rest != 0) & ((a < 0) != (divisor < 0))))


def remainder_rows(a: Rows, b: Rows) -> Rows:
    """Return a % b with the sign of a; 0 for what is an error."""
    a, b = _int64s(a), _int64s(b)
    return np.where(b == 0, 0, np.fmod(a, np.where((b == 0) | (b == -1), 1, b)))


#: Up to it, 100 * part fits int64.
_HUNDREDFOLD: Final = INT_MAX // 100
#: Below it, 100 * part is exact in a double wherever part <= whole.
_EXACT_WHOLE: Final = 2**46


def percent_rows(part: Rows, whole: Rows) -> Rows:
    """Return part * 100 / whole within 0..100; 0 where whole <= 0."""
    if not np.ndim(part) and not np.ndim(whole):
        return percent(int(part), int(whole))
    return percent_within(part, whole, _ends(whole), False)


def percent_within(part: Rows, whole: Rows, ends: tuple[int, int], part_of_it: bool) -> Rows:
    """Return `percent_rows` of wholes that lie between ``ends``.

    ``part_of_it``: no part is greater than its whole.
    """
    if ends[0] > 0 and ends[1] < _EXACT_WHOLE:
        # The quotient that counts lies in 0..100, so rounding cannot carry it over a whole number.
        shares = np.true_divide(np.multiply(part, 100.0), whole)
        if not part_of_it:
            np.minimum(shares, 100.0, out=shares)
        return np.maximum(shares, 0.0, out=shares).astype(np.int64)
    least, most = _ends(part)
    if least < -_HUNDREDFOLD or most > _HUNDREDFOLD:
        return _percent_of_large(part, whole)
    result = np.floor_divide(np.multiply(part, 100), whole)
    np.minimum(result, 100, out=result)
    np.maximum(result, 0, out=result)
    result *= np.greater(whole, 0)
    return result


def _percent_of_large(part: Rows, whole: Rows) -> Rows:
    """Do as `percent_rows` where 100 * part does not fit int64: long division, bit by bit."""
    part, whole = np.broadcast_arrays(_int64s(part), _int64s(whole))
    divisor = np.maximum(whole, 1).view(np.uint64)
    once = np.clip(part, 0, np.maximum(whole, 0)).view(np.uint64)  # no more than 100 percent
    quotient, rest = np.zeros_like(once), np.zeros_like(once)
    for bit in f"{100:b}":
        quotient, rest = quotient * 2 + rest * 2 // divisor, rest * 2 % divisor
        if bit == "1":
            quotient, rest = quotient + (rest + once) // divisor, (rest + once) % divisor
    return quotient.view(np.int64)


def divisors(wholes: Rows) -> Rows:
    """Return wholes as doubles; infinity, whose shares are 0, where a whole is not positive."""
    return np.where(np.greater(wholes, 0), to_double(wholes), np.inf)


def shares(parts: Rows, wholes: Rows, part_of_it: bool, out: Rows = None) -> Rows:
    """Return part / whole within 0..100, truncated, as int32.

    ``part_of_it``: no part is above 100 wholes. ``out``: an array for the quotients.
    """
    percents = np.true_divide(parts, wholes, out)
    if not percents.ndim:
        return math.trunc(min(max(float(percents), 0.0), 100.0))
    if part_of_it:
        np.maximum(percents, same(0.0, percents.shape), out=percents)
    else:
        percents.clip(0.0, 100.0, out=percents)
    return percents.astype(np.int32)  # half the time of int64, here and in sums


def as_whole(numbers: Rows) -> Rows:
    """Return doubles within int32 as int64, truncated."""
    if isinstance(numbers, np.ndarray):
        return numbers.astype(np.int32).astype(np.int64)  # faster than in one step
    return int(numbers)


@lru_cache(maxsize=16)
def same(number: float, shape: int | tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return an array of one number: two arrays take half the time of an array and a number."""
    filled = np.full(shape, number)
    filled.flags.writeable = False
    return filled


def least_rows(a: Rows, b: Rows, out: Rows = None) -> Rows:
    """Return b where b < a, else a; ``out``: an array for the result, which may not be used."""
    if isinstance(a, float) and a > 0:
        if isinstance(b, np.ndarray) and b.ndim:
            return np.fmin(same(a, b.shape), b, out=out)  # a, too, where b is NaN
        return np.fmin(a, b)
    if _is_int(a) and _is_int(b):
        return np.minimum(a, b)
    return np.where(np.less(b, a), b, a)


def greatest_rows(a: Rows, b: Rows) -> Rows:
    """Return b where b > a, else a."""
    if _is_int(a) and _is_int(b):
        return np.maximum(a, b)
    return np.where(np.greater(b, a), b, a)


def _is_int(numbers: Rows) -> bool:
    return isinstance(numbers, int) or (
        isinstance(numbers, np.ndarray | np.generic) and numbers.dtype.kind in "iu"
    )


def table_rows(table: Bools, positions: Rows) -> Rows:
    """Return the entries of a table at positions; any entry for a position outside of it."""
    return np.take(table, positions, mode="clip")


def sign_rows(numbers: Rows) -> Rows:
    """Return -1, 0 or 1."""
    return np.sign(numbers)


def truncate_rows(numbers: Rows) -> Rows:
    """Return doubles without their fraction; any int where int64 cannot hold them."""
    if isinstance(numbers, np.ndarray) and numbers.dtype == np.float64:
        return numbers.astype(np.int64)
    return np.asarray(numbers, dtype=np.float64).astype(np.int64)


def int_of_double_rows(numbers: Rows, site: int) -> tuple[Rows, Rows]:
    """Return (truncated, error): overflow's site, or not_finite's, which is 4 further."""
    numbers = np.asarray(numbers, dtype=np.float64)
    if numbers.min(initial=0.0) > -_HALF and numbers.max(initial=0.0) < _HALF:  # no NaN either
        return numbers.astype(np.int64), 0
    right = (numbers > -_HALF) & (numbers < _HALF)
    errors = np.where(right, 0, np.where(np.isfinite(numbers), site, site + 4))
    return np.where(right, numbers, 0.0).astype(np.int64), errors


def round_rows(numbers: Rows) -> Rows:
    """Return the nearest whole numbers, halves away from zero."""
    numbers = np.asarray(numbers, dtype=np.float64)
    whole = np.trunc(numbers)
    up = np.where(np.abs(numbers - whole) >= 0.5, np.copysign(1.0, numbers), 0.0)
    return np.copysign(whole + up, numbers)


def _always(mask: Rows) -> bool:
    """Return whether a mask holds for every row."""
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask)) == mask.size
    return bool(mask)


def count_masked_rows(*masks: Rows) -> Rows:
    """Return how many masks are true."""
    total: Rows = as_ints(masks[0]) if masks else 0
    for mask in masks[1:]:
        total = np.add(total, mask)
    return total


def _sum(masks: Sequence[Rows], values: Sequence[Rows]) -> Rows:
    total: Rows = 0.0
    for mask, value in zip(masks, values, strict=True):
        total = np.add(total, value if mask is True else np.where(mask, value, 0.0))
    return total


def _split(pairs: tuple[Rows, ...]) -> tuple[list[Rows], list[Rows], Rows]:
    """Return the masks (True where they always hold), the values and how many there are."""
    masks = [True if _always(m) else m for m in pairs[::2]]
    count: Rows = count_masked_rows(*masks)
    return masks, list(pairs[1::2]), count


def mean_masked_rows(*pairs: Rows) -> Rows:
    """Return the mean of the values whose mask is true; 0.0 of nothing."""
    masks, values, count = _split(pairs)
    return np.where(np.equal(count, 0), 0.0, np.true_divide(_sum(masks, values), count))


def deviation_masked_rows(*pairs: Rows) -> Rows:
    """Return the population standard deviation of the values whose mask is true."""
    if len(pairs) == 4:
        return half_of_difference(*pairs)
    masks, values, count = _split(pairs)
    if len(values) < 2:
        return 0.0
    middle = np.true_divide(_sum(masks, values), count)
    squares = []
    for value in values:
        off = np.subtract(value, middle)
        squares.append(off * off)
    result = np.sqrt(np.true_divide(_sum(masks, squares), count))
    if isinstance(count, int):
        return result
    pair = np.abs(_pick(masks, values) - _pick(masks[::-1], values[::-1])) / 2
    return np.where(count < 2, 0.0, np.where(count == 2, pair, result))


def half_of_difference(
    mask: Rows, value: Rows, other_mask: Rows, other: Rows, out: Rows = None
) -> Rows:
    """Return the deviation of two values; 0 unless both masks are true.

    ``out``: an array for the result, which may not be used.
    """
    half = np.subtract(value, other, out)
    if half.ndim:
        np.abs(half, out=half)
        half *= 0.5
    else:
        half = np.abs(half) * 0.5
    if (mask is True and other_mask is True) or (_always(mask) and _always(other_mask)):
        return half
    return np.where(np.logical_and(mask, other_mask), half, 0.0)


def _pick(masks: Sequence[Rows], values: Sequence[Rows]) -> Rows:
    """Return the first value whose mask is true."""
    picked: Rows = 0.0
    for mask, value in zip(reversed(masks), reversed(values), strict=True):
        picked = np.where(mask, value, picked)
    return picked


def weighted_masked_rows(*triples: Rows) -> Rows:
    """Return sum(v*w) / sum(w) over (mask, value, weight, ...), truncated; 0 if sum(w) is 0."""
    upper: Rows = 0
    whole: Rows = 0
    for i in range(0, len(triples), 3):
        mask, value, weight = triples[i : i + 3]
        part = value if isinstance(weight, int) and weight == 1 else np.multiply(value, weight)
        if not _always(mask):
            part, weight = np.where(mask, part, 0), np.where(mask, weight, 0)
        upper = part if isinstance(upper, int) and not upper else np.add(upper, part)
        whole = whole + weight  # a plain int as long as every mask holds everywhere
    if isinstance(whole, int) and whole == 2:
        return np.right_shift(upper, 1)
    return np.floor_divide(upper, whole)


def weighted_masked_shares(*triples: Rows) -> Rows:
    """Do as `weighted_masked_rows` of values within 0..100, and of weights that are ints.

    Sums are below 2^52, where a double's rounding cannot reach the next whole number.
    """
    upper: Rows = None
    whole: Rows = 0
    for i in range(0, len(triples), 3):
        mask, value, weight = triples[i : i + 3]
        part = value if weight == 1 else np.multiply(value, weight, dtype=np.int64)
        if mask is not True and not _always(mask):
            part, weight = np.where(mask, part, 0), np.where(mask, weight, 0)
        upper = part if upper is None else np.add(upper, part)
        whole = whole + weight
    if not isinstance(whole, int):
        return np.floor_divide(upper, whole)
    if whole == 2:
        halves: Rows = np.right_shift(upper, 1)
        return halves.astype(np.int64)
    if whole > 1:
        upper = np.true_divide(upper, whole)
    return as_ints(upper) if whole else 0


#: Sums whose terms' magnitudes add up to less cannot overflow, whatever float64 rounds away.
_SURE_SUM: Final = 2.0**62
_DTYPES: Final = {"b": np.bool_, "i": np.int64, "s": np.int32}


class TextCall(msgspec.Struct, frozen=True):
    """A builtin of a text: the place of the text among its arguments, and the result's rep."""

    function: Callable[..., Any]
    place: int
    rep: str


def any_victim(flags: Rows) -> Rows:
    """Return whether a flag holds for any victim."""
    return flags.any(axis=0) if isinstance(flags, np.ndarray) else flags


def sum_of_victims(numbers: Rows) -> Rows:
    """Return the sum over the victims; a plain number is that of no victim at all."""
    return numbers.sum(axis=0) if isinstance(numbers, np.ndarray) else numbers


def unsure_sum(numbers: Rows) -> Rows:
    """Return where a sum of ints may leave int64."""
    if not isinstance(numbers, np.ndarray):
        return False
    return np.abs(numbers.astype(np.float64)).sum(axis=0) >= _SURE_SUM


def greatest_victim(held: Rows, numbers: Rows) -> tuple[Rows, Rows]:
    """Return the greatest number over the victims that are held; an error if there is none."""
    return _extreme(np.maximum, held, numbers, INT_MIN)


def least_victim(held: Rows, numbers: Rows) -> tuple[Rows, Rows]:
    """Return the least number over the victims that are held; an error if there is none."""
    return _extreme(np.minimum, held, numbers, INT_MAX)


def _extreme(find: np.ufunc, held: Rows, numbers: Rows, otherwise: int) -> tuple[Rows, Rows]:
    if not isinstance(held, np.ndarray):
        return 0, True
    return find.reduce(np.where(held, numbers, otherwise), axis=0, initial=otherwise), ~held.any(
        axis=0
    )


def each_text(rt: Runtime, call: TextCall, *args: Any) -> Rows:
    """Call a builtin once for each distinct text of an array of codes; texts become codes."""
    strings, given = rt.table.strings, list(args)
    codes = np.asarray(given[call.place])
    seen = np.zeros(len(strings), np.bool_)
    seen[codes] = True
    table: npt.NDArray[Any] = np.zeros(seen.size, _DTYPES[call.rep])
    for code in np.flatnonzero(seen).tolist():
        given[call.place] = strings.text(code)
        result = call.function(*given)
        table[code] = strings.code(result) if isinstance(result, str) else result
    return table[codes]  # one code, where a choice that is the same for all made it one


def in_int64(number: Any) -> bool:
    """Return whether a value is no int beyond int64, so that an array can hold it."""
    return not isinstance(number, int) or INT_MIN <= number <= INT_MAX
