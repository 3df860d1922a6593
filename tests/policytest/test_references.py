"""What a test names is read below its root, and nothing of any other file is ever shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicyError
from policy_sched.policytest.scenario import load_scenarios
from policy_sched.source.containment import is_ours, root_of

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec: {score: {expression: "1"}}
"""
SECRET = "TOKEN=hunter2\nOTHER: [hunter2\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a policy, a folder of tests and secrets in and beside it."""
    folder = tmp_path / "repo"
    (folder / "tests").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "policy.yaml").write_text(POLICY)
    for file in (tmp_path / "secret.yaml", folder / ".git/config", folder / "env.yaml"):
        file.write_text(SECRET)
    return folder


def told(repository: Path, names: str, *options: str) -> list[str]:
    """Return what is wrong with a test that names files."""
    test = repository / "tests/tests.yaml"
    test.write_text(f"{{name: x, policies: {names}, pending: []}}\n")
    try:
        load_scenarios(str(test), options)
    except PolicyError as error:
        return [f"{one.column} {one.message}" for one in error.diagnostics]
    return []


@pytest.mark.parametrize(
    "name", ["../policy.yaml", "../tests/../policy.yaml", "..", "missing.yaml"]
)
def test_files_of_the_repository(name: str, repository: Path) -> None:
    """Tests in a folder of their own name the policy above it, or a directory of policies."""
    assert told(repository, f"[{name}]") == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/proc/self/environ", "leads out of the directory that tests may read"),
        ("../../secret.yaml", "leads out of the directory that tests may read"),
        ("link.yaml", "leads out of the directory that tests may read"),
        ("folder", "holds a link that leads out: 'ours.yaml'"),
        ("../.git/config", "is neither a policy nor a configuration"),
        ("../env.yaml", "is neither a policy nor a configuration"),
        ("pipe.yaml", "is neither a policy nor a configuration"),
        ('"a\\0b"', "cannot be read: it holds the character NUL"),
        ("x" * 300, "cannot be read: File name too long"),
    ],
)
def test_other_files(
    name: str, words: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`policies: [/proc/self/environ]`, or a link to it, printed secrets in a build server."""
    tests = repository / "tests"
    (tests / "link.yaml").symlink_to("../../secret.yaml")
    (tests / "folder").mkdir()
    (repository.parent / "ours.yaml").write_text(POLICY)
    (tests / "folder/ours.yaml").symlink_to(repository.parent / "ours.yaml")
    os.mkfifo(tests / "pipe.yaml")
    (found,) = told(repository, f"[{name}]")
    assert words in found
    assert found.startswith("22 ")
    assert run(["test", str(tests / "tests.yaml")]) == 1
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err
    assert "PATH=" not in shown.out + shown.err


def test_a_configuration_is_a_reference(repository: Path) -> None:
    """`config` is held to the same rules as `policies`."""
    test = repository / "tests/tests.yaml"
    test.write_text("{name: x, config: /proc/self/environ, pending: []}\n")
    with pytest.raises(PolicyError, match="leads out of the directory"):
        load_scenarios(str(test))


def test_a_root_allows_more(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where policies are shared by repositories, --root names the directory of both."""
    (repository.parent / "shared.yaml").write_text(POLICY)
    name = "[../../shared.yaml]"
    assert told(repository, name) != []
    assert told(repository, name, str(repository.parent)) == []
    assert (
        run(["test", "--root", str(repository.parent), str(repository / "tests/tests.yaml")]) == 0
    )
    assert "0 of 0 steps as expected" in capsys.readouterr().out


def test_the_root_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is the root of tests below it, unless that would be everything."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert root_of("a/tests.yaml") == tmp_path
    monkeypatch.chdir(tmp_path / "a")
    assert root_of("../tests.yaml") == tmp_path
    monkeypatch.chdir("/")
    assert root_of(tmp_path / "a/tests.yaml") == tmp_path / "a"


def test_links_in_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link below a checked directory is followed to a policy elsewhere, and to nothing else."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "elsewhere.yaml").write_text(POLICY)
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "tests.yaml").symlink_to("../secret")
    (folder / "ours.yaml").symlink_to("../elsewhere.yaml")
    assert run(["check", str(folder)]) == 0
    assert run(["fmt", "--check", str(folder)]) == 0
    assert run(["test", str(folder)]) == 1
    assert run(["simulate", str(folder)]) == 1
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err
    assert "there are no tests in this directory" in shown.err
    assert "a symbolic link leads out of the directory, to no manifest" in shown.err


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (b"kind: Policy\napiVersion: policysched.dev/v1alpha1\n", True),
        (b'{"kind": "Policy", "apiVersion": "policysched.dev/v1alpha1"}', True),
        (b'{"apiVersion": "kubescheduler.config.k8s.io/v1"}', True),
        (b"--- {apiVersion: 'policysched.dev/v1alpha1'}", True),
        (b"a: [\napiVersion: policysched.dev/v1alpha1\n", True),
        (b"# apiVersion: policysched.dev/v1alpha1\n", False),
        (b"apiVersion: v1\n", False),
    ],
)
def test_files_of_ours(text: bytes, ours: bool) -> None:
    """A file is known by its apiVersion, also where it is broken."""
    assert is_ours(text) is ours
