"""A killed instance loses nothing; the test of it in full is kill_run.py."""

from __future__ import annotations

from pathlib import Path

from tests.instance.kill_run import run


def test_three_kills_lose_nothing(tmp_path: Path) -> None:
    """Every binding that was told is in the file, and in the end every pod is bound."""
    tally = run(tmp_path, 3, seed=7)
    assert tally.kills == 3
    assert tally.bound == tally.pods > 3
