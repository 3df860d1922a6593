"""An outage is logged in few lines."""

from __future__ import annotations

from policy_sched.instance.observability.log import CAUSES, LogThrottle
from policy_sched.testing import FakeClock


def test_a_repeated_cause_is_logged_at_intervals_with_its_count() -> None:
    """Seventeen rejected watches are one line; another cause is another line."""
    clock = FakeClock()
    troubles = LogThrottle(clock)
    paths = [f"GET /api/v1/{kind}" for kind in ("pods", "nodes", "services")]
    messages = [troubles.admit(f"{path}: connection refused") for path in paths]
    assert messages == [0, None, None]
    assert troubles.admit("GET /api/v1/pods: too old resource version: 1 (2)") == 0
    assert troubles.admit("no request at all") == 0
    clock.advance(59)
    assert troubles.admit("GET /x: connection refused") is None
    clock.advance(1)
    assert troubles.admit("GET /x: connection refused") == 3
    assert troubles.admit("GET /x: connection refused") is None


def test_causes_are_not_remembered_without_end() -> None:
    """Each expired resource version is another cause."""
    troubles = LogThrottle(FakeClock())
    for number in range(3 * CAUSES):
        assert troubles.admit(f"x: {number}") == 0
        assert len(troubles._causes) <= CAUSES
