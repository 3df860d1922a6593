"""The verb `check`: formats and exit codes; problems themselves are tested where they are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
BROKEN = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Broken}
spec:
  filtr: []
  score: {expression: node.nane}
"""


def test_the_shipped_policies_are_sound(capsys: pytest.CaptureFixture[str]) -> None:
    """No problem in what we ship."""
    assert run(["check", str(POLICIES)]) == 0
    assert capsys.readouterr().out == "no problems found\n"


def test_problems_are_exit_code_1_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text has positions and carets, json has fields, github has annotations."""
    file = tmp_path / "policy.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    assert run(["check", str(file)]) == 1
    text = capsys.readouterr().out
    assert f"{file}:5:3: error PS702:" in text
    assert "^~~~~" in text
    assert run(["check", str(file), "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {"line": 5, "column": 3, "code": "PS702"}.items() <= found[0].items()
    assert run(["check", str(file), "-o", "github"]) == 1
    assert f"::error file={file},line=5,col=3," in capsys.readouterr().out
