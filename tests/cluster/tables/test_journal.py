"""The change journal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy_sched.cluster.tables.journal import DYNAMIC, STATIC, STRUCTURE, Journal

CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([STATIC, DYNAMIC, STRUCTURE, STATIC | DYNAMIC])),
    max_size=40,
)


@given(changes=CHANGES, data=st.data())
def test_since_returns_every_change_once(
    changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The changes since any remembered version are the rows with the union of their kinds."""
    journal = Journal()
    for row, kind in changes:
        journal.append(row, kind)
    version = data.draw(st.integers(0, len(changes)))
    expected: dict[int, int] = {}
    union = 0
    for row, kind in changes[version:]:
        expected[row] = expected.get(row, 0) | kind
        union |= kind
    found = journal.since(version)
    assert found is not None
    assert found.rows == list(expected)
    assert found.kinds == list(expected.values())
    assert found.kind == union
    assert journal.version == len(changes)


@given(changes=CHANGES, capacity=st.integers(2, 10))
def test_a_full_journal_forgets_the_oldest_only(
    changes: list[tuple[int, int]], capacity: int
) -> None:
    """A version is answered exactly or with None, and half the capacity is always remembered."""
    journal = Journal(capacity)
    for row, kind in changes:
        journal.append(row, kind)
    assert journal.version == len(changes)
    for version in range(len(changes) + 1):
        found = journal.since(version)
        if found is None:
            assert len(changes) - version > capacity // 2
        else:
            assert set(found.rows) == {row for row, _ in changes[version:]}


def test_nothing_changed() -> None:
    """An up-to-date reader is told nothing."""
    journal = Journal()
    journal.append(3, DYNAMIC)
    found = journal.since(journal.version)
    assert found is not None
    assert (found.rows, found.kinds, found.kind) == ([], [], 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["come", "leave", "other"])), max_size=40)
)
def test_a_row_without_pods_has_its_stamp_again(changes: list[tuple[int, str]]) -> None:
    """Its stamp is that of the last time that its pods had left, if only pods changed since.

    Each other change gives it a stamp that it never had.
    """
    journal, pods, others = Journal(), [0] * 4, [0] * 4
    for row in range(4):
        journal.append(row, STRUCTURE)
    bare: dict[tuple[int, int], int] = {}
    seen = {(row, journal.stamps[row]) for row in range(4)}
    for row, what in changes:
        if what == "leave" and not pods[row]:
            continue
        if what == "other":
            others[row] += 1
            journal.append(row, DYNAMIC)
        else:
            pods[row] += 1 if what == "come" else -1
            journal.append(row, DYNAMIC, pods[row])
        stamp = journal.stamps[row]
        if what == "leave" and not pods[row]:
            assert bare.setdefault((row, others[row]), stamp) == stamp
        else:
            assert (row, stamp) not in seen
        seen.add((row, stamp))
    assert len({(row, stamp) for (row, _), stamp in bare.items()}) == len(bare)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=40),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=40),
)
def test_stamps_that_differ_are_those_of_changed_rows(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    """A reader far behind finds the same rows by comparing all stamps as by reading the changes."""
    journal = Journal()
    for row in range(6):
        journal.append(row, STRUCTURE)
    for row, pods in before:
        journal.append(row, DYNAMIC, pods)
    seen, version = journal.stamps[:], journal.version
    for row, pods in after:
        journal.append(row, DYNAMIC, pods)
    changes = journal.since(version)
    assert changes is not None
    expected = {row for row in changes.rows if journal.stamps[row] != seen[row]}
    assert journal.differing(seen) == sorted(expected)
