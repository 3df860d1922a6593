"""Totals: the best rows are those of a search over all totals, whatever happened before."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, strategies as st

from policy_sched.framework.evaluate.results import Evaluation, Scoring
from policy_sched.framework.evaluate.totals import Totals
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.scheduling_cycle import select_host
from policy_sched.testing import make_pod
from policy_sched.thresholds import FEW_ROWS, MOST_GROUPS, SEARCHES

ROWS = 12
POD = PodInfo.of(make_pod("p"))
changes = st.lists(
    st.one_of(
        st.tuples(st.integers(0, ROWS - 1), st.integers(-1, 4)),
        st.just("all"),
        st.just("search"),
    )
)


def searched(total: np.ndarray) -> list[int]:
    """Return the rows with the highest total, looked at one by one."""
    return [row for row, value in enumerate(total.tolist()) if value == max(total.tolist())]


def grouped(total: np.ndarray) -> Totals:
    """Return totals of feasible rows that have grouped their rows."""
    totals = Totals(total, np.zeros(len(total), np.int16))
    for _ in range(SEARCHES):
        totals.best()
    return totals


@given(st.lists(st.integers(-1, 4), min_size=ROWS, max_size=ROWS), changes)
def test_best_rows_are_those_of_a_search(
    values: list[int], steps: list[tuple[int, int] | str]
) -> None:
    """After any changes of rows, and after all totals changed, groups and a search agree."""
    total = np.array(values, np.int64)
    totals = grouped(total)
    for step in steps:
        if isinstance(step, tuple):
            totals.add([step[0]], [step[1]])
        elif step == "all":
            totals.add_all(np.arange(ROWS))
        for _ in range(SEARCHES if step == "search" else 1):
            assert list(totals.best()) == searched(total)


def test_many_changes_at_once_are_found() -> None:
    """Totals that all change together are searched, and grouped again later."""
    total = np.zeros(2 * FEW_ROWS, np.int64)
    totals = grouped(total)
    totals.add_some(np.arange(2 * FEW_ROWS), np.arange(1, 2 * FEW_ROWS + 1) % 2)
    for _ in range(2 * SEARCHES):
        assert list(totals.best()) == list(range(0, 2 * FEW_ROWS, 2))


def test_totals_that_all_differ_are_searched() -> None:
    """So many values make no groups, and the best row is found all the same."""
    total = np.arange(2 * MOST_GROUPS)
    totals = grouped(total)
    totals.add([7], [10 * MOST_GROUPS])
    assert list(totals.best()) == [7]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=ROWS), st.integers())
def test_a_tie_is_broken_alike(values: list[int], seed: int) -> None:
    """Grouped or searched, the same seed chooses the same row and reads as many numbers."""
    total = np.array(values, np.int64)
    plain = Evaluation(None, None, Scoring(total))  # type: ignore[arg-type]
    kept = Evaluation(None, None, Scoring(total, totals=grouped(total)))  # type: ignore[arg-type]
    one, other = Random(seed), Random(seed)
    for _ in range(5):
        assert select_host(plain, one, POD) == select_host(kept, other, POD)
    assert one.getstate() == other.getstate()


def test_a_row_that_is_not_feasible_gains_nothing() -> None:
    """A pod went to a node that had been rejected, as its scores had risen since."""
    totals = Totals(np.array([5, -1]), np.array([0, 1], np.int16))
    totals.add([0, 1], [1, 50])
    assert totals.values.tolist() == [6, -1]
