"""The benchmark of replays: what it decides again, and its figures."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.main import run

COMMAND = ["bench", "Replay", "--nodes", "40", "--pods", "300"]


def test_an_hour_is_decided_again(capsys: pytest.CaptureFixture[str]) -> None:
    """All decisions agree, for the recorded nodes are those that the policies choose."""
    assert run([*COMMAND, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["decisions"] == document["agree"] == 300
    assert document["seconds"] == pytest.approx(30, abs=1)
    assert min(document[f"{of}_seconds"] for of in ("read", "agreement", "replay")) > 0


def test_the_text_has_a_line_for_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Reading, agreement, traffic, and traffic decided anew."""
    assert run([*COMMAND[:-1], "20"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("Replay: 40 nodes, 20 pods in ")
    assert len(lines) == 4
    assert all(" us a pod " in line for line in lines)
