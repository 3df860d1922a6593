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


def test_a_snapshot_is_another_place_to_be_wrong_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings are about the policy; errors of the snapshot's files are told beside them."""
    policy, cluster = tmp_path / "policy.yaml", tmp_path / "cluster.yaml"
    rule = "  filter: [{expression: 'node.labels[?\"teir\"].hasValue()', onError: Reject}]\n"
    policy.write_text(BROKEN.partition("  filtr")[0] + rule, encoding="utf-8")
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {tier: gold}}\n"
    cluster.write_text(node, encoding="utf-8")
    arguments = ["check", str(policy), "--snapshot", str(cluster)]
    assert run(arguments) == 0
    assert capsys.readouterr().out == SNAPSHOT_WARNINGS.format(policy)
    assert run([*arguments, "--strict"]) == 1
    capsys.readouterr()
    cluster.write_text(node + "---\n" + node.replace("Node", "Nod"), encoding="utf-8")
    assert run(arguments) == 1
    assert f"{cluster}:6:7: error PS706:" in capsys.readouterr().out


SNAPSHOT_WARNINGS = """\
{0}:5:26: warning PS411: this rule rejects every node of the snapshot
    5 |   filter: [{{expression: 'node.labels[?"teir"].hasValue()', onError: Reject}}]
      |                          ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
   = policy Broken, filter[0].expression
{0}:5:39: warning PS410: no node of the snapshot has the label 'teir'; did you mean 'tier'?
    5 |   filter: [{{expression: 'node.labels[?"teir"].hasValue()', onError: Reject}}]
      |                                       ^~~~~~
   = policy Broken, filter[0].expression
"""
