"""What a scheduler keeps between decisions, judged from outside by random histories."""

from __future__ import annotations

import pytest

from tests.examples import scaled
from tests.scheduler.histories import SEEDS, History


@pytest.mark.parametrize("seed", range(scaled(SEEDS)))
def test_a_scheduler_that_keeps_results_decides_as_one_that_keeps_none(seed: int) -> None:
    """A stale score sent pods to other nodes, and every test of the code beside it passed."""
    History(seed).play()
