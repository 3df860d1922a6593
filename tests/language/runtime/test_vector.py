"""Promises about lists of masked values: over rows they are what they are for each row."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from policy_sched.language.runtime import scalar, vector

MASKED = st.lists(
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0)), min_size=3, max_size=3),
    min_size=0,
    max_size=4,
)


@given(MASKED)
def test_lists_of_masked_values(items: list[list[tuple[bool, float]]]) -> None:
    """Counts, means and deviations over rows are bit for bit those of each row."""
    listed = [
        part
        for item in items
        for part in (np.array([m for m, _ in item]), np.array([v for _, v in item]))
    ]
    with np.errstate(all="ignore"):
        means = np.broadcast_to(vector.mean_masked_rows(*listed), 3)
        deviations = np.broadcast_to(vector.deviation_masked_rows(*listed), 3)
        counts = np.broadcast_to(vector.count_masked_rows(*listed[::2]), 3)
    for row in range(3):
        flat = [part for item in items for part in item[row]]
        assert counts[row] == sum(map(bool, flat[::2]))
        assert means[row] == scalar.mean_masked(*flat)
        assert deviations[row] == scalar.deviation_masked(*flat)


WEIGHTS = st.integers(0, 9) | st.just(2**30)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100), WEIGHTS), max_size=4))
def test_weighted_means(triples: list[tuple[bool, int, int]]) -> None:
    """The weighted mean over rows is that of one row, also where all weights are 0."""
    flat = [part for triple in triples for part in triple]
    listed = [np.array([part, part]) for part in flat]
    expected = scalar.weighted_masked(*flat)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(vector.weighted_masked_rows(*listed), 2)
    assert found.tolist() == [expected] * 2
    mixed = [
        part
        for mask, value, weight in triples
        for part in (mask, np.array([value] * 2, np.int32), weight)
    ]
    with np.errstate(all="ignore"):
        found = np.broadcast_to(vector.weighted_masked_shares(*mixed), 2)
        assert found.tolist() == [expected] * 2
        varying = [np.array([p, p]) if i % 3 == 0 else p for i, p in enumerate(mixed)]
        found = np.broadcast_to(vector.weighted_masked_shares(*varying), 2)
    assert found.tolist() == [expected] * 2


@given(
    whole=st.integers(1, 2**46 - 1),
    percents=st.lists(st.integers(-3, 103), min_size=1, max_size=8),
    off=st.integers(-2, 2),
)
def test_shares_are_those_of_integer_arithmetic(whole: int, percents: list[int], off: int) -> None:
    """In percent, also where a part is one unit away from a share that is a whole number."""
    for part_of_it in (False, True):
        parts = [whole * percent // 100 + off for percent in percents]
        if part_of_it:
            parts = [min(part, whole) for part in parts]
        numbers = np.array([float(part) * 100.0 for part in parts])
        found = vector.shares(numbers, np.full(len(parts), float(whole)), part_of_it)
        assert found.tolist() == [min(max(part * 100 // whole, 0), 100) for part in parts]
        assert vector.shares(numbers[0], np.float64(whole), part_of_it) == found[0]


@given(a=st.floats(0.0, 1.0), b=st.floats(0.0, 1.0))
def test_a_deviation_of_two_may_overwrite_its_first_value(a: float, b: float) -> None:
    """The result is the same; where a mask does not hold it is 0."""
    first, second, masks = np.array([a, a]), np.array([b, b]), np.array([True, False])
    expected = scalar.deviation_masked(True, a, True, b)
    assert vector.half_of_difference(masks, first, True, second).tolist() == [expected, 0.0]
    assert vector.half_of_difference(True, first, True, second, first).tolist() == [expected] * 2
