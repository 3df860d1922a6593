"""The verb `fmt`: what is written, what is printed, and the exit codes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from policy_sched.cli.main import run

BEFORE = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: A}
spec:
  filter:
  - expression: a&&b
"""
AFTER = BEFORE.replace("a&&b", "a && b")


def test_files_are_changed_in_place_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second time there is nothing to do; line ends and rights stay."""
    first, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    first.write_text(BEFORE, encoding="utf-8")
    first.chmod(0o640)
    two.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    (tmp_path / "three.yaml").write_text(AFTER, encoding="utf-8")
    assert run(["fmt", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{first}\n{two}\n"
    assert first.read_text(encoding="utf-8") == AFTER
    assert first.stat().st_mode & 0o777 == 0o640
    assert two.read_bytes() == AFTER.replace("\n", "\r\n").encode()
    assert run(["fmt", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "one.yaml",
        "three.yaml",
        "two.yaml",
    ]


def test_check_writes_nothing_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a step of a pipeline."""
    file = tmp_path / "one.yaml"
    file.write_text(BEFORE, encoding="utf-8")
    assert run(["fmt", "--check", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}\n"
    assert file.read_text(encoding="utf-8") == BEFORE
    file.write_text(AFTER, encoding="utf-8")
    assert run(["fmt", "--check", str(file)]) == 0


def test_diff_shows_what_would_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the form that patch reads."""
    file = tmp_path / "one.yaml"
    file.write_text(BEFORE, encoding="utf-8")
    assert run(["fmt", "--diff", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "-  - expression: a&&b\n+  - expression: a && b\n" in shown
    assert file.read_text(encoding="utf-8") == BEFORE
    assert run(["fmt", "--diff", "--check", str(file)]) == 1


def test_a_directory_without_files_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in the name of the directory would look like success in CI, as with check."""
    assert run(["fmt", "--check", str(tmp_path)]) == 1
    assert "there is no YAML file in this directory" in capsys.readouterr().err


def test_json_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no form to choose, and a rule in single quotes would break it."""
    file = tmp_path / "policy.json"
    file.write_text("{}", encoding="utf-8")
    assert run(["fmt", str(file)]) == 2
    assert "fmt reads YAML files" in capsys.readouterr().err
    assert run(["fmt", str(tmp_path)]) == 0


def test_standard_input_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For editors that pipe a buffer through."""
    monkeypatch.setattr("sys.stdin", io.StringIO(BEFORE))
    assert run(["fmt", "-"]) == 0
    assert capsys.readouterr().out == AFTER


def test_a_slip_is_reported_and_the_file_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, with the place; a path that is not there is 2."""
    file = tmp_path / "one.yaml"
    file.write_text(BEFORE.replace("a&&b", "a &&"), encoding="utf-8")
    assert run(["fmt", str(file)]) == 1
    assert f"{file}:6:20: error PS001:" in capsys.readouterr().err
    assert run(["fmt", str(tmp_path / "none.yaml")]) == 2
    assert run(["fmt", "--chekc", str(file)]) == 2


def test_links_of_a_repository_lead_to_no_file_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link `.policy.yaml.new` to a shell's start file became a program: code of a stranger ran.

    A policy that is a link is formatted where it lies; one out of the repository is told.
    """
    repository, start = tmp_path / "repository", tmp_path / "profile"
    (repository / ".git").mkdir(parents=True)
    start.write_text("mine", encoding="utf-8")
    (repository / ".policy.yaml.new").symlink_to(start)
    (repository / "policy.yaml").write_text(BEFORE, encoding="utf-8")
    (repository / "same.yaml").symlink_to("policy.yaml")
    (tmp_path / "other.yaml").write_text(BEFORE, encoding="utf-8")
    (repository / "other.yaml").symlink_to(tmp_path / "other.yaml")
    assert run(["fmt", str(repository)]) == 1
    assert f"{repository}/other.yaml:1:1: error PS701: cannot be written" in capsys.readouterr().err
    assert start.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "other.yaml").read_text(encoding="utf-8") == BEFORE
    assert (repository / "policy.yaml").read_text(encoding="utf-8") == AFTER
    assert (repository / "same.yaml").is_symlink()
