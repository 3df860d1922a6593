"""The numbers of a job."""

from __future__ import annotations

from policy_sched.embedded.controllers.jobs import backoff, pods_wanted
from policy_sched.testing import SECOND


def test_the_wait_doubles_up_to_ten_minutes() -> None:
    """Nothing to wait for before the first failure."""
    waits = [backoff(failures) // SECOND for failures in range(9)]
    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600]


def test_as_many_run_as_are_still_wanted() -> None:
    """The parallelism, or what is left to do."""
    spec = {"completions": 5, "parallelism": 3}
    assert [pods_wanted(spec, done) for done in range(7)] == [3, 3, 3, 2, 1, 0, 0]
    queue = {"parallelism": 3}
    assert [pods_wanted(queue, done) for done in range(3)] == [3, 0, 0]
