"""Thresholds: each has a sentence and the workloads that show where its paths cross."""

from __future__ import annotations

from policy_sched import thresholds
from policy_sched.bench.workloads import WORKLOADS
from tests.bench.thresholds import workloads


def test_each_threshold_names_the_workloads_that_show_its_crossing() -> None:
    """About 45 constants said from which size on another path is taken, and none of them why."""
    names = {name for name in vars(thresholds) if name.isupper()}
    assert set(workloads()) == names
    assert all(set(where) <= set(WORKLOADS) and where for where in workloads().values())
