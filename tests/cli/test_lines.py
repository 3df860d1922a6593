"""Names and messages never start a line of a log, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from policy_sched.cli.main import run
from policy_sched.errors import Diagnostic, one_line

EVIL = "x\n::warning::hacked\r::set-output name=a::b\x1b[2J\u2028::error::\u202e"
POLICY = {
    "apiVersion": "policysched.dev/v1alpha1",
    "kind": "Policy",
    "metadata": {"name": "P"},
    "spec": {"filter": [{"expression": "false", "message": f"no {EVIL}"}], EVIL: 1},
}


def quiet(text: str, *, data: bool = False) -> bool:
    """Tell whether no line of a log is a command to a build server, or moves the cursor.

    ``data``: the text is JSON or the like, in which only line breaks matter.
    """
    lines = text.replace("\r", "\n").split("\n")
    commands = [line for line in lines if line.lstrip().startswith(("::", "##[", "##vso["))]
    return not commands and "\x1b" not in text and (data or text.isascii() or not ODD & set(text))


ODD = set("\u2028\u202e\x85\x00")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain: a::b #x\t", "plain: a::b #x\t"),
        ("a\nb\r\x1b[0m\x00\x85", r"a\nb\r\e[0m\x00\x85"),
        ("\u2028\u202e\ud800", r"\u2028\u202e\ud800"),
        ("::warning::x", r"\x3a:warning::x"),
        ("  ::warning::x", r"  \x3a:warning::x"),
        ("##vso[task.x] ##[error]", r"#\x23vso[task.x] #\x23[error]"),
    ],
)
def test_control_characters_are_escaped_in_lines_of_ci(text: str, shown: str) -> None:
    """A key or a file name of `::warning::` was a command to CI; control characters went through.

    Both are escaped, as in a literal.
    """
    assert one_line(text) == shown


@given(st.text(), st.text(), st.text())
def test_a_diagnostic_keeps_its_number_of_lines(name: str, message: str, source: str) -> None:
    """A diagnostic has as many lines as it needs, whatever is in its parts."""
    shown = Diagnostic(name, 1, 1, "PS1", message, "hint", source_line=source).render()
    assert quiet(shown)
    assert len(shown.splitlines()) == (4 if source else 2)


@pytest.mark.parametrize("form", ["text", "json", "github", "junit", "tap", "sarif"])
def test_check_prints_no_line_that_a_key_or_file_name_made(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key with a line break in it wrote commands into the log; so did a file's name."""
    monkeypatch.chdir(tmp_path)
    file = Path("::warning::\nx.yaml")
    file.write_text(json.dumps(POLICY))
    assert run(["check", str(file), "-o", form]) == 1
    shown = capsys.readouterr()
    ours = [line for line in shown.out.split("\n") if not line.startswith("::error file=")]
    assert quiet("\n".join(ours) + shown.err, data=form != "text")
    assert "unknown field" in shown.out


@pytest.mark.parametrize("form", ["text", "json", "junit", "tap"])
def test_test_prints_no_line_that_a_name_made(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of tests and messages of policies stay on their lines in every report of tests."""
    policy = {**POLICY, "spec": {"filter": [{"expression": "false", "message": f"no {EVIL}"}]}}
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    scenario = {
        "name": EVIL,
        "policies": ["policy.yaml"],
        "objects": [{"node": "n"}],
        "pending": [{"pod": "p"}],
        "expect": [{"pod": "p", "rejected": {"n": EVIL}}],
    }
    (tmp_path / "tests.yaml").write_text(json.dumps(scenario))
    assert run(["test", str(tmp_path), "-o", form]) == 1
    shown = capsys.readouterr()
    assert quiet(shown.out, data=form in ("json", "junit"))
    assert quiet(shown.err)
    assert "hacked" in shown.out + shown.err


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml"])
def test_simulate_prints_no_line_that_a_name_made(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages and names of manifests stay on their lines in what simulate prints."""
    policy = {**POLICY, "spec": {"filter": [{"expression": "false", "message": f"no {EVIL}"}]}}
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    head = {"apiVersion": "v1"}
    node = {**head, "kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}
    pod = {**head, "kind": "Pod", "metadata": {"name": EVIL, "namespace": "::error::"}}
    (tmp_path / "m.jsonl").write_text(f"{json.dumps(node)}\n{json.dumps(pod)}\n")
    files = [str(tmp_path / "m.jsonl"), "--policies", str(tmp_path / "policy.yaml")]
    assert run(["simulate", *files, "-o", form]) == 0
    shown = capsys.readouterr()
    assert quiet(shown.out, data=form != "table")
    assert quiet(shown.err)
