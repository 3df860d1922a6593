"""A killed instance loses nothing; kill_run.py runs longer."""

from __future__ import annotations

from pathlib import Path

from tests.instance.kill_run import run


def test_three_kills_lose_nothing(tmp_path: Path) -> None:
    """Every logged binding is in the file, and in the end every pod is bound."""
    tally = run(tmp_path, 3, seed=7)
    assert tally.kills == 3
    assert tally.bound == tally.pods > 3
