"""The verb `test`: exit codes, formats, and the last line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from policy_sched.cli.main import run

GOOD = "{name: good, objects: [{node: n1}], pending: [a], expect: [{pod: a, chosen: n1}]}\n"
BAD = "{name: bad, objects: [{node: n1}], pending: [a], expect: [{pod: a, chosen: n2}]}\n"


def written(file: Path, text: str) -> str:
    """Write a file and return its path."""
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_all_as_expected_is_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line counts the steps of all files."""
    good = written(tmp_path / "good.yaml", GOOD + "---\n" + GOOD)
    assert run(["test", good, good]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 of 4 steps as expected"


def test_a_difference_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What differs is shown with file, scenario, pod and field."""
    bad = written(tmp_path / "bad.yaml", BAD)
    assert run(["test", bad]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{bad}: bad",
        "  default/a",
        "    chosen",
        "      expected n2",
        "      got      n1",
        f"{bad}: 0 of 1",
        "0 of 1 steps as expected",
    ]


def test_a_broken_scenario_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the file is a diagnostic, not a difference."""
    broken = written(tmp_path / "broken.yaml", "{name: x, pendign: []}")
    assert run(["test", broken]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f'{broken}:1:11: error PS702: unknown key "pendign"' in captured.err


def test_machine_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output holds the document and nothing else."""
    files = [written(tmp_path / "good.yaml", GOOD), written(tmp_path / "bad.yaml", BAD)]
    assert run(["test", *files, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["steps"], document["asExpected"]) == (2, 1)
    assert run(["test", *files, "-o", "junit"]) == 1
    captured = capsys.readouterr()
    assert ET.fromstring(captured.out).attrib == {"tests": "2", "failures": "1"}
    assert captured.err == "1 of 2 steps as expected\n"


def test_a_directory_stands_for_its_scenarios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests.yaml and JSON lines are scenarios; a policy beside them is not."""
    folder = tmp_path / "spot"
    folder.mkdir()
    written(folder / "tests.yaml", GOOD)
    written(folder / "policy.yaml", "kind: Policy\n")
    assert run(["test", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 steps as expected"
