"""Promises of the catalogue of files' problems: each fails, almost fails, has its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.language.diagnostics import codes
from policy_sched.manifests.load import load
from policy_sched.profiles.check.check import check_all
from policy_sched.profiles.check.snapshot import snapshot_of

HERE = Path(__file__).parent
RULES = HERE.parent / "language" / "rules"
ENTRIES = yaml.load((HERE / "problems.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
RUNNING = HERE.parent / "instance" / "test_running_problems.py"
#: Codes that no file alone has, and their tests: most need a scheduler that runs.
ELSEWHERE = {
    **dict.fromkeys(("PS711", "PS712", "PS713"), RUNNING),
    **dict.fromkeys(("PS803", "PS805", "PS821"), HERE.parent / "policytest" / "test_inputs.py"),
    "PS822": HERE.parent / "cli" / "test_input_objects.py",
    "PS715": HERE.parent / "recording" / "test_recording.py",
    "PS718": HERE.parent / "cli" / "test_diff.py",
    "PS719": HERE.parent / "cli" / "test_simulate.py",
    "PS804": HERE.parent / "instance" / "app" / "test_inputs.py",
    "PS807": HERE.parent / "instance" / "app" / "test_inputs.py",
    **dict.fromkeys(("PS901", "PS902"), HERE.parent / "cli" / "test_prove.py"),
    "PS714": HERE.parent / "experiments" / "test_reading.py",
}


def title(entry: dict[str, Any]) -> str:
    """Name a test after its entry."""
    return f"{entry['code']} {entry['title']}"


def told(folder: Path, text: str, nodes: str | None) -> str:
    """Return the problems of a file, held against a snapshot if there is one."""
    file = folder / "rules.yaml"
    file.write_text(text, encoding="utf-8")
    against = None
    if nodes is not None:
        (folder / "nodes.yml").write_text(nodes, encoding="utf-8")
        against = snapshot_of(load([str(folder / "nodes.yml")], None).objects).lint
    found = check_all([str(file)], against).diagnostics
    return "".join(f"{d.render()}\n" for d in found).replace(str(file), "rules.yaml")


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_failing_file_gets_exactly_these_words(entry: dict[str, Any], tmp_path: Path) -> None:
    """A problem is reported with place, caret, context and hint."""
    said = told(tmp_path, entry["fails"], entry.get("snapshot"))
    assert said == entry["says"]
    assert set(re.findall(r"(PS\d{3}):", said)) == {entry["code"]}


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_near_miss_passes_without_a_word(entry: dict[str, Any], tmp_path: Path) -> None:
    """What almost makes the mistake is accepted in silence."""
    assert told(tmp_path, entry["passes"], entry.get("snapshot")) == ""


def test_every_code_is_shown() -> None:
    """Each code of the table has a failing file, a near miss and its words; no other code has."""
    shown = {entry["code"] for entry in ENTRIES} | set(ELSEWHERE)
    for name in ("catalogue.yaml", "lints.yaml", "run_time.yaml"):
        loaded = yaml.load((RULES / name).read_text(encoding="utf-8"), yaml.CSafeLoader)
        shown |= {entry["code"] for entry in loaded}
    assert shown == set(codes())


@pytest.mark.parametrize("code", ELSEWHERE)
def test_what_no_file_shows_has_its_own_test(code: str) -> None:
    """A code that needs more than a file: failure, near miss and words in a test of its own."""
    text = ELSEWHERE[code].read_text(encoding="utf-8")
    assert f"def test_{code.lower()}_" in text
    assert re.search(rf"(error|warning) {code}: ", text)
