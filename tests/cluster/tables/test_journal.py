"""The change journal."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.cluster.tables.journal import DYNAMIC, STATIC, STRUCTURE, Changes, Journal

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


def test_a_reader_that_is_up_to_date_is_told_nothing() -> None:
    """An up-to-date reader is told nothing."""
    journal = Journal()
    journal.append(3, DYNAMIC)
    found = journal.since(journal.version)
    assert found is not None
    assert (found.rows, found.kinds, found.kind) == ([], [], 0)


def test_a_change_of_everything_is_none_of_a_node() -> None:
    """Results are made anew, while what follows from nodes alone holds."""
    journal = Journal()
    journal.append(0, STRUCTURE)
    version, nodes_version = journal.version, journal.nodes_version
    journal.changed_everything()
    assert journal.static_version == journal.version > version
    assert journal.nodes_version == nodes_version
    assert journal.since(version) == Changes([0], [STRUCTURE], STRUCTURE)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=80),
    st.integers(0, 80),
    st.sampled_from([2, 65_536]),
)
def test_rows_that_moved_are_those_with_other_stamps(
    changes: list[tuple[int, int]], looked: int, capacity: int
) -> None:
    """However far back a reader looked, it gets each row whose stamp differs.

    It gets only those if they are many, and at least one row if there was any change.
    """
    journal = Journal(capacity)
    for row in range(4):
        journal.append(row, STRUCTURE)
    for row, pods in changes[:looked]:
        journal.append(row, DYNAMIC, pods)
    version, seen = journal.version, journal.stamps[:]
    for row, pods in changes[looked:]:
        journal.append(row, DYNAMIC, pods)
    moved = journal.moved(version, seen)
    differing = [row for row in range(4) if journal.stamps[row] != seen[row]]
    assert moved is not None
    assert set(differing) <= set(moved)
    assert len(moved) <= 2 or sorted(moved) == differing
    assert bool(moved) == (journal.version != version)


def test_rows_that_moved_are_unknown_after_a_change_of_a_node() -> None:
    """What is kept of all rows does not hold any more."""
    journal = Journal()
    journal.append(0, STRUCTURE)
    version, seen = journal.version, journal.stamps[:]
    journal.append(0, STATIC)
    assert journal.moved(version, seen) is None


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
