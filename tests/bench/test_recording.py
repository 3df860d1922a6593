"""The benchmark of recordings: what is written is read, and its figures are of that."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.main import run

COMMAND = ["bench", "Recording", "--nodes", "50", "--pods", "7000"]


def test_an_hour_is_written_and_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Each pod comes, is decided, bound and runs; those of the first minute are deleted."""
    assert run([*COMMAND, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    deleted = 7000 - 6000
    assert document["events"] == pytest.approx(50 + 1 + 4 * 7000 + deleted, abs=40)
    assert document["seconds"] == pytest.approx(700, abs=1)
    assert 50 < document["bytes_per_pod"] < 200
    assert document["megabytes"] < 7000 * 200 / 1e6
    assert document["write_us_per_pod"] > 0


def test_the_text_has_a_line_for_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Size, writing and reading."""
    assert run([*COMMAND[:-1], "20"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("Recording: 50 nodes, 20 pods come, run and go in ")
    assert [line.split()[0] for line in lines] == ["size", "write", "read"]
