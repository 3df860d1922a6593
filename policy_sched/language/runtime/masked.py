"""What generated functions make of lists of masked values, for all rows at once.

A list is written (mask, value, mask, value, ...), or with a weight after each value. Masks, values
and weights are arrays with an element per row, or one number for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from policy_sched.language.runtime.vector import Rows, as_ints, as_whole


def _always(mask: Rows) -> bool:
    """Tell whether a mask holds for every row."""
    return bool(mask.all()) if isinstance(mask, np.ndarray) else bool(mask)


def count_masked_rows(*masks: Rows) -> Rows:
    """Return how many masks are true."""
    total: Rows = 0
    for mask in masks:
        total = np.add(total, as_ints(mask))
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
    masks, values, count = _split(pairs)
    if len(values) < 2:
        return 0.0
    if len(values) == 2:
        apart = np.abs(np.subtract(values[0], values[1]))
        apart *= 0.5
        if masks[0] is True and masks[1] is True:
            return apart
        return np.where(np.logical_and(masks[0], masks[1]), apart, 0.0)
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


def _pick(masks: Sequence[Rows], values: Sequence[Rows]) -> Rows:
    """Return the first value whose mask is true."""
    found: Rows = 0.0
    for mask, value in zip(reversed(masks), reversed(values), strict=True):
        found = np.where(mask, value, found)
    return found


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


def weighted_masked_doubles(*triples: Rows) -> Rows:
    """Do as `weighted_masked_rows` of doubles that are whole numbers, and of weights that are ints.

    Sums are below 2^52, where a quotient's rounding cannot reach the next whole number.
    """
    upper: Rows = None
    whole: Rows = 0
    for i in range(0, len(triples), 3):
        mask, value, weight = triples[i : i + 3]
        part = value if weight == 1 else np.multiply(value, weight)
        if not _always(mask):
            part, weight = np.where(mask, part, 0.0), np.where(mask, weight, 0)
        upper = part if upper is None else np.add(upper, part)
        whole = whole + weight
    if isinstance(whole, int):
        if not whole:
            return 0
        return as_whole(np.multiply(upper, 1 / whole) if whole in (1, 2, 4) else upper / whole)
    return np.floor_divide(np.asarray(upper).astype(np.int64), whole)


NAMES: Final[dict[str, object]] = {
    f.__name__: f
    for f in (
        count_masked_rows,
        mean_masked_rows,
        deviation_masked_rows,
        weighted_masked_rows,
        weighted_masked_doubles,
    )
}
