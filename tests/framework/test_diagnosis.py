"""Diagnosis: kube-scheduler's sentence, to the letter.

Rejections: a mapping from rows to statuses that counts them without looking at each.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from policy_sched.framework.diagnosis import (
    NOTHING,
    ByRow,
    Diagnosis,
    Rejections,
    StatusTable,
    rows_with,
    tally,
)
from policy_sched.framework.evaluate.results import Explained, Explanations
from policy_sched.framework.status import Code, Status

CPU = Status(Code.UNSCHEDULABLE, ("Insufficient cpu",))
TAINT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
BOTH = Status(Code.UNSCHEDULABLE, ("Too many pods", "Insufficient cpu"))


def test_counts_each_reason_and_sorts_the_counts_as_text() -> None:
    """Ten sorts before two, and a node with two reasons counts twice."""
    statuses = dict(enumerate([TAINT] * 10 + [CPU, BOTH]))
    assert Diagnosis(12, statuses).message() == (
        "0/12 nodes are available: 1 Too many pods, 10 node(s) had untolerated taint(s), "
        "2 Insufficient cpu."
    )


def test_the_reasons_of_post_filter_follow() -> None:
    """The PostFilter message is appended after a blank."""
    said = Status(Code.UNSCHEDULABLE, ("preemption: 0/1 nodes are available: 1 No.",))
    message = Diagnosis(1, {0: CPU}, post_filter=said).message()
    assert message.endswith("1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No.")


def test_a_rejection_of_the_whole_pod_replaces_the_counts() -> None:
    """What PreFilter said stands alone."""
    said = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("claim not found",))
    assert Diagnosis(4, {}, pre_filter=said).message() == (
        "0/4 nodes are available: claim not found."
    )


@given(
    st.lists(st.sampled_from([None, CPU, TAINT, BOTH]), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from([None, CPU, BOTH])), max_size=50),
    st.sets(st.integers(0, 99), max_size=5),
)
def test_statuses_of_changed_rows_are_those_of_all_rows(
    kinds: list[Status | None], changes: list[tuple[int, Status | None]], alone: set[int]
) -> None:
    """Few or many rows change, and each status is counted as if all rows were new."""
    table = StatusTable()
    listed = [kinds[row % len(kinds)] for row in range(100)]
    found = Rejections(numbers_of(listed, table), table)
    found.tally()
    for row, status in changes:
        listed[row] = status
    others = {row: status for row, status in enumerate(listed) if row in alone and status}
    rows = sorted({row for row, _ in changes} - others.keys())
    there = [row for row in rows if listed[row] is not None]
    statuses = [status for row in there if (status := listed[row]) is not None]
    after = found.with_rows(rows, [(np.array(there, np.intp), statuses)], others)
    expected = Rejections(numbers_of(listed, table), table)
    assert after == expected
    assert list(after.tally().items()) == list(expected.tally().items())
    assert after.rows_with(Code.UNSCHEDULABLE).tolist() == (
        expected.rows_with(Code.UNSCHEDULABLE).tolist()
    )


def numbers_of(listed: list[Status | None], table: StatusTable) -> NDArray[np.intp]:
    """Return the numbers of statuses by row; NOTHING for a row without one."""
    return np.array([NOTHING if one is None else table.number(one) for one in listed], np.intp)


def test_an_empty_cluster_has_a_message_of_its_own() -> None:
    """Without nodes there is nothing to count."""
    assert Diagnosis(0).message() == "no nodes available to schedule pods"


def test_nodes_that_are_gone_without_a_reason() -> None:
    """Without reasons, the message ends before them."""
    assert Diagnosis(2, {}).message() == "0/2 nodes are available:"


def test_values_by_row_are_a_sequence() -> None:
    """A few different values stand for many rows, and are changed once each."""
    changed: list[str] = []

    def upper(text: str) -> str:
        changed.append(text)
        return text.upper()

    values = ByRow(["a", "b"], np.array([1, 0, 1], np.intp))
    assert (list(values), len(values), values[2], list(values[:2])) == (
        list("bab"),
        3,
        "b",
        list("ba"),
    )
    assert list(values.map(upper)) == list("BAB")
    assert changed == ["a", "b"]


def test_statuses_by_row_get_the_numbers_of_a_list() -> None:
    """Equal statuses have one number, whichever form they come in."""
    statuses = [Status(Code.UNSCHEDULABLE, (text,)) for text in ("x", "y", "x")]
    table = StatusTable()
    numbers = table.numbers(statuses)
    assert list(table.numbers(ByRow(statuses, np.array([2, 1, 0], np.intp)))) == numbers[::-1]


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
