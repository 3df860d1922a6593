"""The verb `replay`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.model.meta import SECOND
from tests.replay.recorded import CONFIG, Load, write
from tests.replay.test_decisions import packing_first

SECONDS = 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording, with configurations beside it."""
    folder = tmp_path_factory.mktemp("replay")
    load = Load(10, 1.0, 6)
    write(load.play(SECONDS), folder / "traffic", load.clock.ns)
    (folder / "same.json").write_text(json.dumps(CONFIG))
    (folder / "packs.json").write_text(json.dumps(packing_first()))
    return folder


def replay(folder: Path, *options: str) -> int:
    """Run the verb."""
    return run(["replay", str(folder / "traffic"), *options])


def test_recorded_decisions_agree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the policies that are in the recording; every form says so, and so does a page."""
    page = folder / "agreement.html"
    assert replay(folder, "--report", str(page), "--fail-on", "disagreement") == 0
    lines = capsys.readouterr().out.splitlines()
    decided = lines[1].split()[0]
    assert lines[1] == f"{decided} of {decided} decisions agree"
    assert replay(folder, "-o", "json", "--from", "+1m") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["agreement"]["since"] == "2026-01-01T00:01:00Z"
    assert 0 < document["agreement"]["results"]["agree"] < int(decided)
    assert document["differences"] == []
    assert f"{decided} of {decided} decisions agree" in page.read_text()


def test_other_policies_are_compared_with_those_in_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measures of both, over time, with seeds and intervals; twice the same bytes."""
    options = ("--config", str(folder / "packs.json"))
    page = folder / "replay.html"
    assert replay(folder, *options, "--report", str(page)) == 0
    text = capsys.readouterr().out
    assert "OLD is what was in force, decided again" in text
    assert "pods that found no node" in text
    assert "Over time" in page.read_text()
    printed = []
    for workers in ("1", "2"):
        assert replay(folder, *options, "--seeds", "2", "-o", "json", "--workers", workers) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    document = json.loads(printed[0])
    assert document["replay"]["oldAsRecorded"] == document["replay"]["pods"] > 0
    assert document["moved"] == sum(bool(m["old"] and m["new"]) for m in document["moves"]) > 0
    assert {"old", "new", "difference", "verdict"} <= document["measures"][0].keys()
    first = document["windows"]["new"][0]
    assert first["end"] - first["start"] == 5 * SECOND
    assert replay(folder, *options, "--seeds", "2") == 0
    assert "95 % INTERVAL" in capsys.readouterr().out


def test_the_same_policies_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Given as a file they are those of the recording."""
    options = ("--config", str(folder / "same.json"), "--fail-on", "regression", "-o", "yaml")
    assert replay(folder, *options) == 0
    printed = capsys.readouterr().out
    assert "moves: []" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "soon"), "is not a time such as"),
        (("--from", "+9h"), "the recording goes from 2026-01-01T00:00:00Z to"),
        (("--from", "+1m", "--to", "+30s"), "it is not after the beginning"),
        (("--seeds", "3"), "--seeds goes with --policies or --config"),
        (("--fail-on", "regression"), "--fail-on regression goes with --policies or --config"),
        (("--report", "x.txt"), "name a file that ends in .html"),
    ],
)
def test_what_makes_no_sense_is_refused(
    folder: Path, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option, and what it may be."""
    assert replay(folder, *options) != 0
    assert message in capsys.readouterr().err


def test_a_folder_without_a_recording_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what a recording is."""
    assert run(["replay", str(tmp_path)]) == 2
    assert "there is no segment with a snapshot" in capsys.readouterr().err


ROLLOUT = """\
apiVersion: policysched.dev/v1alpha1
kind: Rollout
metadata: {name: quick}
spec:
  steps: [{audit: {decisions: 10, for: 20s}}, {canary: {percent: 30, for: 30s}}]
  abortWhen: [{expression: candidate.moved > 3, message: pods move}]
"""


def test_a_rollout_is_tried_on_the_traffic(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would have aborted it is told, and may be a failure; mistakes have their words."""
    file = folder / "rollout.yaml"
    file.write_text(ROLLOUT)
    options = ("--config", str(folder / "packs.json"), "--rollout", str(file))
    assert replay(folder, *options) == 0
    assert "in step 1 (audit): pods move (candidate.moved " in capsys.readouterr().out
    assert replay(folder, *options, "-o", "json", "--fail-on", "regression") == 1
    assert json.loads(capsys.readouterr().out)["rollout"]["phase"] == "Aborted"
    file.write_text(ROLLOUT.replace("candidate.moved", "candidate.movd"))
    assert replay(folder, *options) == 1
    assert "Measures has no field 'movd'" in capsys.readouterr().err
    file.write_text("apiVersion: policysched.dev/v1alpha1\nkind: Policy\n")
    assert replay(folder, *options) == 1
    assert replay(folder, "--rollout", str(file)) == 2
    assert "--rollout goes with --policies or --config" in capsys.readouterr().err
