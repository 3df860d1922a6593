"""Experiments are checked, formatted and described as every other kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.profiles.format import format_file
from tests.experiments.examples import TINY, tiny


def test_check_reports_what_sweep_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verb check finds mistakes in the files that an experiment names, too."""
    file = tiny(tmp_path)
    assert run(["check", file]) == 0
    (tmp_path / "pods.csv").write_text("name,cores\np,1\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["check", file]) == 1
    assert "no column cpu" in capsys.readouterr().out


def test_a_file_of_a_parameter_may_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """check warns of a missing file that --set names; sweep refuses it."""
    changes = {"parameters": {"pods": "later.csv"}, "workload.rows.file": "${pods}"}
    file = tiny(tmp_path, changes)
    assert run(["check", file]) == 0
    assert "warning PS701" in capsys.readouterr().out
    assert run(["sweep", file, "--results", str(tmp_path / "r")]) == 1
    assert "error PS701" in capsys.readouterr().err


def test_a_directory_of_policies_may_hold_experiments(tmp_path: Path) -> None:
    """Loading policies passes over experiments beside them."""
    tiny(tmp_path)
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: One}\n"
        "spec: {score: {expression: '1'}}\n",
        encoding="utf-8",
    )
    assert run(["check", str(tmp_path)]) == 0
    assert run(["diff", "default", str(tmp_path)]) == 0


def test_keys_and_rules_have_one_form() -> None:
    """fmt orders the keys as the schema has them, and prints rules anew; comments stay."""
    text = TINY.replace(
        "  - {name: unplaced, pods: Unplaced, better: Lower}\n",
        "  - nodes: node.podCount*2  # twice\n    name: twice\n",
    )
    shown, problems = format_file("e.yaml", text)
    assert problems == []
    assert "  - name: twice\n    nodes: node.podCount * 2  # twice\n" in shown
    assert format_file("e.yaml", shown) == (shown, [])


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Editors get the schema of the kind."""
    assert run(["schema", "experiment"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == "Experiment"
    assert set(schema["definitions"]["ExperimentSpec"]["required"]) == {
        "workload", "seeds", "measures",
    }  # fmt: skip
