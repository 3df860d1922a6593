"""Rejections: a mapping from rows to statuses that counts them without looking at each."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from policy_sched.framework.diagnosis import ByRow, Rejections, StatusTable, rows_with, tally
from policy_sched.framework.evaluate.results import Explained, Explanations
from policy_sched.framework.status import Code, Status

STATUSES = [
    Status(Code.UNSCHEDULABLE, ("full",), "A"),
    Status(Code.UNSCHEDULABLE, ("busy", "full"), "B"),
    Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("wrong",), "A"),
]
BY_ROW = st.dictionaries(st.integers(0, 9), st.sampled_from(STATUSES))


def rejections_of(statuses: dict[int, Status]) -> Rejections:
    table = StatusTable()
    numbers = np.zeros(10, np.intp)
    for row, status in statuses.items():
        numbers[row] = table.number(status)
    return Rejections(numbers, table)


@given(BY_ROW)
def test_it_is_the_mapping_that_it_was_made_of(statuses: dict[int, Status]) -> None:
    """Rows are ascending, others have no status, and counts are those of the statuses."""
    found = rejections_of(statuses)
    assert found == statuses
    assert list(found) == sorted(statuses)
    assert len(found) == len(statuses)
    assert all(found.get(row) == statuses.get(row) for row in range(-1, 12))
    assert found.tally() == Counter(statuses.values()) == tally(statuses) == tally(found)
    for code in Code:
        rows = sorted(row for row, status in statuses.items() if status.code is code)
        assert found.rows_with(code).tolist() == rows == rows_with(statuses, code).tolist()


def test_equal_statuses_have_one_number() -> None:
    """It is the words that count, not the object."""
    table = StatusTable()
    clone = Status(Code.UNSCHEDULABLE, ("full",), "A")
    assert table.numbers([STATUSES[0], STATUSES[1], STATUSES[0], clone]) == [1, 2, 1, 1]


@given(BY_ROW, st.lists(st.tuples(st.sets(st.integers(0, 9)), BY_ROW), max_size=4))
def test_only_changed_rows_are_explained_again(
    statuses: dict[int, Status], changes: list[tuple[set[int], dict[int, Status]]]
) -> None:
    """Answers handed out before stay as they were."""
    explanations = Explanations(10)
    asked: list[list[int]] = []

    def explain(rows: NDArray[np.intp]) -> Explained:
        asked.append(rows.tolist())
        known = [row for row in rows.tolist() if row in statuses]
        yield np.array(known, np.intp), [statuses[row] for row in known]

    before = explanations.of(explain, {})
    copy = dict(statuses)
    for rows, fresh in changes:
        asked.clear()
        statuses = {row: s for row, s in statuses.items() if row not in rows}
        statuses |= {row: s for row, s in fresh.items() if row in rows}
        explanations.forget(sorted(rows))
        assert explanations.of(explain, {}) == statuses
        assert asked == ([sorted(rows)] if rows else [])
    assert before == copy


def test_a_clone_forgets_some_rows() -> None:
    """What one of them forgets the other still knows."""
    explanations = Explanations(2)
    explanations.of(lambda rows: [(rows, [STATUSES[0]] * rows.size)], {})
    clone = explanations.clone([1])
    assert clone.of(lambda rows: [(rows, [STATUSES[2]] * rows.size)], {}) == dict(
        enumerate([STATUSES[0], STATUSES[2]])
    )
    assert explanations.of(lambda _rows: [], {}) == dict.fromkeys(range(2), STATUSES[0])


def test_an_overridden_row_has_the_status_of_its_override() -> None:
    """It is not explained again; the other rows that were forgotten are."""
    explanations = Explanations(2)
    explanations.of(lambda rows: [(rows, [STATUSES[0]] * rows.size)], {})
    explanations.forget([0, 1])
    asked: list[list[int]] = []

    def explain(rows: NDArray[np.intp]) -> Explained:
        asked.append(rows.tolist())
        return [(rows, [STATUSES[1]] * rows.size)]

    found = explanations.of(explain, {1: (1, STATUSES[2])})
    assert found == {0: STATUSES[1], 1: STATUSES[2]}
    assert asked == [[0]]


def test_groups_of_rows_are_the_rows_that_they_flag() -> None:
    """Rows given by number, by a few values and by flags are counted and found alike."""
    table = StatusTable()
    flags = np.array([False, True, False, False, False, True, False])
    found = Rejections.grouped(
        7,
        [
            (np.array([0, 3], np.intp), [STATUSES[0], STATUSES[1]]),
            (np.array([2, 6], np.intp), ByRow([STATUSES[1], STATUSES[0]], np.array([0, 0]))),
            (flags, STATUSES[1]),
        ],
        table,
    )
    rows = {0: STATUSES[0], 3: STATUSES[1], 2: STATUSES[1], 6: STATUSES[1]}
    expected = rows | {1: STATUSES[1], 5: STATUSES[1]}
    assert found.tally() == Counter(expected.values())
    assert found == expected
