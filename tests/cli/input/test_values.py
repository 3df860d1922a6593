"""The option ``--policies``: paths, and names of shipped policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.input.values import policy_paths, shipped_policies
from policy_sched.cli.main import run
from policy_sched.errors import PolicySchedError
from policy_sched.profiles.models.defaults import policies_directory

EXAMPLE = str(policies_directory() / "example-cluster" / "manifests")


def test_a_name_stands_for_a_shipped_policy() -> None:
    """`--policies gang` needs no checkout."""
    assert policy_paths(["gang"]) == (str(policies_directory() / "gang"),)
    assert "default" not in shipped_policies()
    assert "example-cluster" not in shipped_policies()


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of the same name is what the user sees."""
    (tmp_path / "gang").mkdir()
    monkeypatch.chdir(tmp_path)
    assert policy_paths(["gang"]) == ("gang",)


def test_all_unknown_names_are_reported_at_once() -> None:
    """Each is reported with the name that was meant, or with all names."""
    with pytest.raises(PolicySchedError) as error:
        policy_paths(["gnag", "gang", "zzzzzzzz"])
    lines = str(error.value).splitlines()
    assert lines[0].endswith('did you mean "gang"?')
    assert "shipped are allocatable, " in lines[1]
    assert len(lines) == 2


def test_the_same_policies_twice_are_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`--policies gang --policies gang` is no policy that is defined twice."""
    assert run(["simulate", EXAMPLE, "--policies", "gang", "--policies", "gang"]) == 0
    assert "defined twice" not in capsys.readouterr().err


def test_two_policies_of_one_name_are_one_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second definition is named, and no configuration that the user did not write."""
    text = (policies_directory() / "gang" / "policy.yaml").read_text("utf-8")
    (tmp_path / "copy.yaml").write_text(text)
    assert run(["simulate", EXAMPLE, "--policies", "gang", "--policies", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert 'policy "Gang" is defined twice' in error
    assert "<default configuration>" not in error


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gnag", 'did you mean "gang"?'), ("zzzzzz", "shipped are default, allocatable, ")],
)
def test_diff_of_an_unknown_policy_set_suggests_names(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy set that is no file and no shipped policy is answered with names."""
    assert run(["diff", name, "default"]) == 2
    error = capsys.readouterr().err
    assert f"{name}: no such file, directory or shipped policy; {hint}" in error


@pytest.mark.parametrize("path", ["no/such", "none.yaml"])
def test_a_missing_file_is_a_missing_file(path: str) -> None:
    """What can only be a path is reported as such."""
    with pytest.raises(FileNotFoundError):
        policy_paths([path])


def test_the_option_policies_is_given_once_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """The option is given once for each policy; verbs accept names and paths side by side."""
    shipped = str(policies_directory() / "rack-spread")
    command = ["simulate", EXAMPLE, "--policies", "gang", "--policies", shipped, "-o", "json"]
    assert run(command) == 0
    assert run(["explain", "shop/web-1", "--cluster", EXAMPLE, "--policies", "spot-nodes"]) == 0
    assert run(["simulate", EXAMPLE, "--policies", "gnag"]) == 2
    assert 'did you mean "gang"?' in capsys.readouterr().err
