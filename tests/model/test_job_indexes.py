"""Completion indexes as ranges."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, strategies as st

from policy_sched.model import job_indexes


@given(st.sets(st.integers(0, 60)))
def test_indexes_are_written_and_read_back(indexes: set[int]) -> None:
    """Runs of three and more are written with a dash."""
    runs = job_indexes.with_indexes([], indexes)
    assert {one for run in runs for one in run} == indexes
    assert job_indexes.runs_of(job_indexes.text_of(runs), 61) == runs


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.integers(0, 20))
def test_open_indexes_are_the_first_that_nothing_has(
    done: set[int], taken: set[int], completions: int
) -> None:
    """Neither done nor the index of a pod, in order, up to the requested number."""
    text = job_indexes.text_of(job_indexes.with_indexes([], done))
    runs = job_indexes.runs_of(text, completions)
    found = list(islice(job_indexes.open_indexes(runs, taken, completions), 5))
    assert found == [one for one in range(completions) if one not in done | taken][:5]


def test_indexes_that_a_client_wrote_are_bounded() -> None:
    """``completedIndexes: 0-2147483646`` was written out number by number; nonsense is skipped."""
    assert job_indexes.runs_of("0-2147483646,x,-3,5-,9-1,2-٣", 1000) == []
    assert job_indexes.runs_of("0-999999999,7", 2**31 - 1) == [range(1_000_000_000)]
    most = 2**31 - 1
    assert list(job_indexes.open_indexes([range(most - 2)], (), most)) == [most - 2, most - 1]


def test_runs_are_written_as_kubernetes_does() -> None:
    """Two neighbours are two numbers."""
    runs = job_indexes.with_indexes([], [1, 3, 4, 5, 7, 8])
    assert job_indexes.text_of(runs) == "1,3-5,7,8"
    assert job_indexes.text_of([]) == ""
