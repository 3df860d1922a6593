"""The budget of an attempt: units that are counted, and a time where a clock goes."""

from __future__ import annotations

import pytest

from policy_sched.errors import TakesLong
from policy_sched.framework import AttemptBudget, DeadlineExceeded, attempt_budget
from policy_sched.testing import FakeClock

SECOND = 10**9


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock(1)


def test_an_attempt_has_so_many_units(clock: FakeClock) -> None:
    """A claim was searched for without an end where the clock stands still, as in simulate."""
    budget = AttemptBudget(clock)
    budget.begin()
    budget.enter(10, 10 * SECOND)
    budget.spend(attempt_budget.UNITS + 10 * attempt_budget.UNITS_PER_NODE)
    assert not budget.exceeded
    with pytest.raises(DeadlineExceeded):
        budget.spend(1)
    assert budget.exceeded
    with pytest.raises(DeadlineExceeded):  # nor has it any later
        budget.spend(0)
    budget.begin()
    assert (budget.exceeded, budget.left) == (False, attempt_budget.UNITS)


def test_the_time_is_for_all_calls_of_an_attempt(clock: FakeClock) -> None:
    """filterTimeout began anew with each node, so 1,000 nodes had 1,000 times 10 s."""
    budget = AttemptBudget(clock)
    budget.begin()
    for _ in range(3):
        budget.enter(1, 10 * SECOND)
        budget.spend(2000)
        clock.ns += 4 * SECOND
    with pytest.raises(DeadlineExceeded):
        budget.spend(2000)


def test_without_a_timeout_units_count(clock: FakeClock) -> None:
    """``filterTimeout: 0s`` is no limit of time; that of work stays."""
    budget = AttemptBudget(clock)
    budget.begin()
    budget.enter(0, 0)
    clock.ns += 3600 * SECOND
    budget.spend(attempt_budget.UNITS)
    with pytest.raises(DeadlineExceeded):
        budget.spend(1)


def test_a_brief_attempt_is_made_again_elsewhere(clock: FakeClock) -> None:
    """The loop that renews leases and answers probes made the whole search."""
    budget = AttemptBudget(clock)
    budget.begin(brief=True)
    budget.enter(5_000, SECOND)
    budget.charge(attempt_budget.BRIEF_UNITS + 1)  # work that is done is not lost
    assert not budget.exceeded
    with pytest.raises(TakesLong):
        budget.spend(0)
    assert budget.exceeded


def test_a_binding_has_what_is_left(clock: FakeClock) -> None:
    """Reserve runs in the event loop, and looks at the chosen node only."""
    budget = AttemptBudget(clock)
    budget.begin()
    budget.under_way = False
    budget.resume()
    assert budget.left == attempt_budget.BINDING_UNITS
    budget.enter(5_000, SECOND)
    assert budget.left == attempt_budget.BINDING_UNITS
    with pytest.raises(DeadlineExceeded):
        budget.spend(attempt_budget.BINDING_UNITS + 1)


def test_outside_of_an_attempt_each_call_has_its_own_units(clock: FakeClock) -> None:
    """An explanation after a claim that took all is not without any."""
    budget = AttemptBudget(clock)
    for _ in range(2):
        budget.enter(0, 0)
        with pytest.raises(DeadlineExceeded):
            budget.spend(attempt_budget.UNITS + 1)
