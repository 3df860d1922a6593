"""The oracle's aggregates over lists, sets and maps."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

from .oracle_values import (
    ABSENT,
    Optional,
    OracleError,
    Quantity,
    aligned,
    equal,
    int64,
    quantity_of_units,
    some,
    truncated_quotient,
)


def compare(left: object, right: object) -> int:
    """Return -1, 0 or 1; ints and doubles compare by exact value, texts by code point."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        left, right, _ = aligned(left, right)
    return (left > right) - (left < right)  # type: ignore[operator, no-any-return]


def add(left: object, right: object) -> object:
    """Add two values of one type, with int64's and quantities' overflow."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        first, second, dimension = aligned(left, right)
        if dimension == "free":
            return Quantity(left.amount + right.amount, dimension)
        return quantity_of_units(int64(first + second), dimension)
    if isinstance(left, int) and isinstance(right, int):
        return int64(left + right)
    return left + right  # type: ignore[operator]


def contains(items: Sequence[object], item: object) -> bool:
    """Tell whether an equal element is in the list."""
    return any(equal(item, other) for other in items)


def total(items: Sequence[object], zero: object) -> object:
    """Sum in index order; the empty list gives the type's zero."""
    return functools.reduce(add, items, zero) if items else zero


def extreme(items: Sequence[object], sign: int) -> object:
    """Return the first smallest (-1) or largest (1) element; the empty list is an error."""
    if not items:
        raise OracleError("no_value")
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


def is_sorted(items: Sequence[object]) -> bool:
    """Tell whether no element is smaller than the one before it."""
    return all(compare(a, b) <= 0 for a, b in itertools.pairwise(items))


def index_of(items: Sequence[object], item: object, order: int = 1) -> int:
    """Return the index of the first (or, with order -1, last) equal element, or -1."""
    for index in range(len(items))[::order]:
        if equal(items[index], item):
            return index
    return -1


def distinct(items: Sequence[object]) -> list[object]:
    """Keep the first of equal elements."""
    kept: list[object] = []
    for item in items:
        if not contains(kept, item):
            kept.append(item)
    return kept


def ordered(items: Sequence[object], key: Callable[[object], object] = lambda x: x) -> list[object]:
    """Sort stably."""
    return sorted(items, key=functools.cmp_to_key(lambda a, b: compare(key(a), key(b))))


def first(items: Sequence[object]) -> Optional:
    """Return the first element, if any."""
    return some(items[0]) if items else ABSENT


def last(items: Sequence[object]) -> Optional:
    """Return the last element, if any."""
    return some(items[-1]) if items else ABSENT


def flatten(items: Sequence[list[object]]) -> list[object]:
    """Splice the inner lists."""
    return [inner for item in items for inner in item]


def sets_contains(items: Sequence[object], others: Sequence[object]) -> bool:
    """Tell whether every one of ``others`` is in ``items``."""
    return all(contains(items, other) for other in others)


def includes(whole: dict[object, object], part: dict[object, object]) -> bool:
    """Tell whether all entries of ``part`` are present and equal in ``whole``."""
    return all(k in whole and equal(whole[k], v) for k, v in part.items())


def mean(items: Sequence[float]) -> float:
    """Return the arithmetic mean, summed in index order; 0.0 for an empty list."""
    if not items:
        return 0.0
    return float(total([float(i) for i in items], 0.0)) / len(items)  # type: ignore[arg-type]


def stddev(items: Sequence[float]) -> float:
    """Return the population standard deviation as BalancedAllocation computes it."""
    if len(items) < 2:
        return 0.0
    if len(items) == 2:
        return abs(float(items[0]) - float(items[1])) / 2
    middle = mean(items)
    squares = [(float(i) - middle) * (float(i) - middle) for i in items]
    return math.sqrt(float(total(squares, 0.0)) / len(items))  # type: ignore[arg-type]


def weighted_mean(items: Sequence[int], weights: Sequence[int]) -> int:
    """Return sum(v*w)/sum(w), truncated; 0 where the weights sum to 0."""
    if len(items) != len(weights):
        raise OracleError("index_out_of_range")
    whole = 0
    for weight in weights:
        whole = int64(whole + weight)
    upper = 0
    for item, weight in zip(items, weights, strict=True):
        upper = int64(upper + int64(item * weight))
    return 0 if whole == 0 else truncated_quotient(upper, whole)


def percent(part: int, whole: int) -> int:
    """Return part*100/whole clamped to 0..100; 0 where the whole is not positive."""
    if whole <= 0:
        return 0
    return min(max(truncated_quotient(int64(part * 100), whole), 0), 100)


def interpolate(position: float, points: Sequence[Sequence[float]]) -> float:
    """Follow the broken line through ``points``; flat outside. Ints truncate as kube's shape."""
    if not points or any(len(point) != 2 for point in points):
        raise OracleError("conversion")
    if any(points[i][0] >= points[i + 1][0] for i in range(len(points) - 1)):
        raise OracleError("conversion")
    for index, (x, y) in enumerate(points):
        if position <= x:
            if index == 0:
                return y
            x0, y0 = points[index - 1]
            if isinstance(position, int):
                rise = int64(int64(y - y0) * int64(position - x0))  # type: ignore[arg-type]
                return int64(y0 + truncated_quotient(rise, int64(x - x0)))  # type: ignore[arg-type]
            return y0 + (y - y0) * (position - x0) / (x - x0)
    return points[-1][1]


def subsets(number: int, most: int) -> list[list[int]]:
    """Return the sets of numbers by size, then in the order of their members."""
    if not 0 <= number <= 8:
        raise OracleError("index_out_of_range")
    sets = [[n for n in range(number) if bits >> n & 1] for bits in range(1, 2**number)]
    return sorted((one for one in sets if len(one) <= most), key=lambda one: (len(one), one))


def replaced(items: list[object], position: int, item: object) -> list[object]:
    """Return a list with another value at a position."""
    if position < 0 or position >= len(items):
        raise OracleError("index_out_of_range")
    return [item if i == position else other for i, other in enumerate(items)]
