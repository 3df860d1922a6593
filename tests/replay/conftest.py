"""A recording that the tests of replays share: none of them changes it."""

from __future__ import annotations

import pytest

from policy_sched.recording import Event
from tests.replay.recorded import SECONDS, recorded


@pytest.fixture(scope="session")
def events() -> list[Event]:
    """Return what was recorded of a mixed load."""
    return recorded(12, SECONDS, seed=11)
