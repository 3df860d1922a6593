"""Amounts over time, and lives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from policy_sched.simulate.timeline_result import PodTimeline, StepFunction


def test_a_pod_waits_from_creation_to_binding() -> None:
    """A pod that was not bound has no waiting time."""
    assert PodTimeline("p", 0, created=5).waited is None
    assert PodTimeline("p", 0, created=5, bound=12).waited == 7


def test_only_changes_are_kept() -> None:
    """The last of several amounts at one instant counts."""
    steps = StepFunction()
    for time, value in ((0, 1), (5, 1), (7, 2), (7, 3), (9, 4)):
        steps.note(time, value)
    assert (steps.times, steps.values) == ([0, 7, 9], [1, 3, 4])


def test_an_amount_that_never_was_is_zero() -> None:
    """Nothing was noted."""
    mean, peak = StepFunction().summed(np.array([0, 10, 20], np.int64))
    assert mean.tolist() == [0, 0]
    assert peak.tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12),
    st.sets(st.integers(0, 70), min_size=2, max_size=6),
)
def test_means_and_peaks_are_those_of_every_instant(
    changes: list[tuple[int, int]], cuts: set[int]
) -> None:
    """As if every nanosecond were looked at."""
    steps = StepFunction()
    by_time = [0] * 71
    for time, value in sorted(changes, key=lambda change: change[0]):
        steps.note(time, value)
        by_time[time:] = [value] * (71 - time)
    edges = sorted(cuts)
    mean, peak = steps.summed(np.array(edges, np.int64))
    for i, (a, b) in enumerate(pairwise(edges)):
        here = by_time[a:b]
        assert abs(mean[i] - sum(here) / len(here)) < 1e-6
        assert peak[i] == max(here)
