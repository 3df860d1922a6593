"""The benchmark of inputs: what objects take, and what a changed one costs."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.main import run

COMMAND = ["bench", "Inputs", "--nodes", "40", "--pods", "20", "--existing", "60"]


def test_objects_and_both_kinds_of_decisions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """More objects than nodes, and each pod finds a node."""
    assert run([*COMMAND, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (loaded,) = document["loaded"]
    assert (loaded["kind"], loaded["count"]) == ("objects", 60)
    assert 0 < document["changing"]["p50_us"] <= document["changing"]["p99_us"]
    assert run(COMMAND) == 0
    assert "an object changes" in capsys.readouterr().out
