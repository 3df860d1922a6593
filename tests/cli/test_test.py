"""The verb `test`: exit codes, formats, and the last line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from policy_sched.cli.main import run

CLUSTER = "objects: [{node: n1}, {node: n2, pods: 0}], pending: [a]"
GOOD = f"{{name: good, {CLUSTER}, expect: [{{pod: a, chosen: n1}}]}}\n"
BAD = f"{{name: bad, {CLUSTER}, expect: [{{pod: a, chosen: n2}}]}}\n"


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
    assert f'{broken}:1:11: error PS702: unknown field "pendign"' in captured.err


def test_standard_output_of_test_is_the_document_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output holds the document and nothing else."""
    files = [written(tmp_path / "good.yaml", GOOD), written(tmp_path / "bad.yaml", BAD)]
    assert run(["test", *files, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["steps"], document["asExpected"]) == (2, 1)
    assert run(["test", *files, "-o", "junit"]) == 1
    captured = capsys.readouterr()
    root = ET.fromstring(captured.out)
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    assert all(float(case.get("time", "nan")) >= 0 for case in root.iter("testcase"))
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


def test_only_the_wanted_steps_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--run finds its pattern in names of scenarios or of pods; a pattern that finds none fails."""
    file = written(tmp_path / "both.yaml", GOOD + "---\n" + BAD)
    assert run(["test", file, "--run", "^go"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 steps as expected"
    assert run(["test", file, "--run", "default/a"]) == 1
    assert run(["test", file, "--run", "nobody"]) == 2
    assert run(["test", file, "--run", "("]) == 2
    assert "is no RE2 pattern" in capsys.readouterr().err


def test_all_files_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The problems of every file are reported, and the other files are run all the same."""
    broken = written(tmp_path / "broken.yaml", "{name: x, pendign: []}")
    policy = "{name: x, policies: [none.yaml], pending: [a], expect: [{pod: a}]}"
    second = written(tmp_path / "second.yaml", policy)
    good = written(tmp_path / "good.yaml", GOOD)
    assert run(["test", broken, second, good]) == 1
    captured = capsys.readouterr()
    assert "1 of 1 steps as expected" in captured.out
    assert "unknown field" in captured.err
    assert "none.yaml" in captured.err


def test_tap_has_a_line_per_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Differences are comments."""
    file = written(tmp_path / "both.yaml", GOOD + "---\n" + BAD)
    assert run(["test", file, "-o", "tap"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "TAP version 14",
        "1..2",
        f"ok 1 - {file}: good: default/a",
        f"not ok 2 - {file}: bad: default/a",
        "# chosen: expected n2, got n1",
    ]


def test_coverage_has_a_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Less than the threshold is exit code 1, although every step is as expected."""
    written(
        tmp_path / "policy.yaml",
        "{apiVersion: policysched.dev/v1alpha1, kind: Policy, metadata: {name: Odd}, spec: "
        "{filter: [{expression: node.name != 'n1', message: odd}, "
        "{expression: node.name != 'n9', message: unseen}]}}",
    )
    file = written(
        tmp_path / "tests.yaml",
        "{name: x, policies: [policy.yaml], objects: [{node: n1}, {node: n2}], pending: [a], "
        "expect: [{pod: a, chosen: n2}]}",
    )
    assert run(["test", file, "--coverage"]) == 0
    out = capsys.readouterr().out
    assert "Odd.filter[1]: never false: node.name != 'n9'" in out
    assert "rule coverage 50.0 %" in out
    assert run(["test", file, "--threshold", "50", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["coverage"]["rules"][1]["missing"] == ["false"]
    assert run(["test", file, "--threshold", "50.5"]) == 1
    assert "rule coverage 50.0 % is below 50.5 %" in capsys.readouterr().err


def test_a_policy_without_tests_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below a directory that is tested; so a new policy does not pass a threshold by itself."""
    head = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: New}\n"
    (tmp_path / "new").mkdir()
    rule = "spec: {filter: [{expression: pod.name != 'a'}]}"
    written(tmp_path / "new" / "policy.yaml", head + rule)
    (tmp_path / "old").mkdir()
    written(tmp_path / "old" / "tests.yaml", GOOD)
    assert run(["test", str(tmp_path), "--threshold", "100"]) == 1
    assert "New.filter[0]: never true or false" in capsys.readouterr().out
    assert run(["test", str(tmp_path / "old"), "--threshold", "100"]) == 0


def test_a_directory_without_tests_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline that looks in the wrong place must not be green."""
    assert run(["test", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{tmp_path}:1:1: error PS704: there are no tests in this directory" in told.err


def test_update_refuses_what_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As running it does, with the byte."""
    file = tmp_path / "tests.yaml"
    file.write_bytes(b"name: \xff\n")
    assert run(["test", str(file), "--update"]) == 1
    assert "the byte 0xff is not UTF-8" in capsys.readouterr().err


def test_update_makes_a_file_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was expected is what happens now."""
    file = written(tmp_path / "bad.yaml", BAD)
    assert run(["test", file, "--update"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"{file}: updated\n"
    assert "expect: [{pod: a, chosen: n1}]" in Path(file).read_text()


AUDITED = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Never}
spec: {enforcement: Audit, filter: [{expression: "false", message: never}]}
"""


def test_an_audited_policy_decides_only_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in run it decides nothing; --enforce-audits tests what it will do."""
    written(tmp_path / "never.yaml", AUDITED)
    text = f"{{name: t, policies: [never.yaml], {CLUSTER}, expect: [{{pod: a, chosen: %s}}]}}\n"
    beside = written(tmp_path / "tests.yaml", text % "n1")
    assert run(["test", beside]) == 0
    enforced = written(tmp_path / "enforced.yaml", text % "null")
    assert run(["test", enforced]) == 1
    assert run(["test", "--enforce-audits", enforced]) == 0
    capsys.readouterr()
