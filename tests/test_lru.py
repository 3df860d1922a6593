"""Lru: what is kept is what was used of late, and no more than the limit."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.lru import Lru
from tests.examples import scaled  # noqa: F401 - the profile of examples

STEPS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 5), st.integers(0, 7))
)


def test_the_least_recently_used_entry_goes_first() -> None:
    """A look at an entry makes it the latest; one that is replaced counts once."""
    kept: Lru[str, int] = Lru(3)
    for number, key in enumerate("abcb"):
        kept.put(key, number)
    assert kept.get("a") == 0
    kept.put("d", 4)
    assert (list(kept.entries.values()), "c" in kept.entries) == ([3, 0, 4], False)


def test_a_large_entry_drives_others_out_but_the_one_before() -> None:
    """Two stay, so that pods of two kinds in turns find theirs, however large they are."""
    kept: Lru[str, bytes] = Lru(10, len)
    for key, size in (("a", 4), ("b", 4), ("c", 100), ("d", 1)):
        kept.put(key, bytes(size))
    assert [len(value) for value in kept.entries.values()] == [100, 1]


@given(STEPS, st.integers(2, 20))
def test_it_holds_the_latest_entries_that_fit(
    steps: list[tuple[str, int, int]], limit: int
) -> None:
    """The sum of sizes is that of the entries, and only what does not fit has gone."""
    kept: Lru[int, bytes] = Lru(limit, len)
    latest: dict[int, bytes] = {}
    for step, key, size in steps:
        if step == "pop":
            assert kept.pop(key) == latest.pop(key, None)
        elif step == "put":
            latest.pop(key, None)
            latest[key] = bytes(size)
            kept.put(key, latest[key])
            while sum(map(len, latest.values())) > limit and len(latest) > 2:
                del latest[next(iter(latest))]
        else:
            known = kept.get(key)
            assert known == latest.get(key)
            if known is not None:
                latest[key] = latest.pop(key)
        assert list(kept.entries.values()) == list(latest.values())
    kept.clear()
    assert len(kept) == 0
