"""The verb ``init``: what it writes passes our own checks, and nothing is overwritten."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from policy_sched import __version__
from policy_sched.cli.main import run
from tests.shown import ROOT, page


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("folder", ["policies/gpu-nodes", "here", "a/b/2-nodes-x"])
def test_what_is_written_passes_check_fmt_and_test(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A first user had to copy files together; now a policy works and its test passes."""
    assert run(["init", folder, "--name", "GpuNodes"]) == 0
    assert run(["check", "--strict", folder]) == 0
    assert run(["fmt", "--check", folder]) == 0
    assert run(["test", folder]) == 0
    assert "1 of 1 steps as expected" in capsys.readouterr().out


@pytest.fixture
def plugin(empty_folder: Path) -> Path:
    """Write a plugin, and beside it what pip would write: the entry points."""
    assert run(["init", "plugins/few-pods", "--plugin", "--ci", "gitlab"]) == 0
    folder = empty_folder / "plugins/few-pods"
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    info = folder / "few_pods-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n{name} = {target}\n"
        for group, entries in project["entry-points"].items()
        for name, target in entries.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    return folder


def with_plugin(plugin: Path, *verbs: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run verbs on the plugin's folder in a process that has it installed; code of the last."""
    runs = "".join(f"code = run({[*verb, str(plugin)]!r})\n" for verb in verbs)
    script = f"import sys\nfrom policy_sched.cli.main import run\n{runs}sys.exit(code)"
    path = os.pathsep.join((str(plugin), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_a_plugin_in_python_passes_its_test(plugin: Path) -> None:
    """An author of a plugin had nothing to start from; now a package and its test are written."""
    files = {path.name for path in plugin.iterdir() if path.is_file()}
    assert files == {"pyproject.toml", "few_pods.py", "tests.yaml"}
    ended = with_plugin(plugin, ("check", "--strict"), ("fmt", "--check"), ("test",))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "no problems found" in ended.stdout
    assert "1 of 1 steps as expected" in ended.stdout
    job = yaml.safe_load(Path(".gitlab-ci.yml").read_text("utf-8"))["policies"]
    assert job["script"][0].endswith(" './plugins/few-pods'")


def test_a_plugin_refuses_wrong_arguments(plugin: Path) -> None:
    """The template shows what a constructor does with arguments that make no sense."""
    tests = plugin / "tests.yaml"
    tests.write_text(tests.read_text("utf-8").replace("maxPods: 10", "maxPods: -1"), "utf-8")
    ended = with_plugin(plugin, ("test",))
    assert ended.returncode == 1
    assert "maxPods must be a positive integer, got -1" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_plugin_of_the_documentation_is_the_one_that_is_written(plugin: Path) -> None:
    """docs/plugins.md shows the files of `init --plugin`, to the letter."""
    text = page("docs/plugins.md")
    for file in ("pyproject.toml", "few_pods.py", "tests.yaml"):
        assert (plugin / file).read_text("utf-8") in text, file


def test_the_name_is_made_from_the_folder() -> None:
    """policies/gpu-nodes holds the policy GpuNodes."""
    assert run(["init", "policies/gpu-nodes"]) == 0
    policy = yaml.safe_load(Path("policies/gpu-nodes/policy.yaml").read_text("utf-8"))
    assert policy["metadata"]["name"] == "GpuNodes"


@pytest.mark.parametrize(
    ("ci", "file"), [("github", ".github/workflows/policies.yaml"), ("gitlab", ".gitlab-ci.yml")]
)
def test_the_ci_job_installs_and_checks(ci: str, file: str) -> None:
    """The job is YAML, and runs fmt, check and test on the folder."""
    assert run(["init", "mine", "--ci", ci, "--package", "./policy_sched.whl"]) == 0
    text = Path(file).read_text("utf-8")
    document = yaml.safe_load(text)
    job = document["jobs"]["policies"] if ci == "github" else document["policies"]
    commands = [step.get("run") for step in job["steps"]] if ci == "github" else job["script"]
    assert "pip install './policy_sched.whl'" in commands
    for verb in ("fmt", "check", "test"):
        assert any(str(command).startswith(f"policy-sched {verb} ") for command in commands)


def test_files_that_exist_are_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    """A test that exists keeps the policy from being written; the message names it."""
    Path("mine").mkdir()
    Path("mine/tests.yaml").write_text("mine", "utf-8")
    assert run(["init", "mine", "--ci", "gitlab"]) == 2
    assert "mine/tests.yaml: exists already; nothing was written" in capsys.readouterr().err
    assert not Path("mine/policy.yaml").exists()
    assert not Path(".gitlab-ci.yml").exists()


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_a_second_policy_keeps_the_ci_job(ci: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The job of the first policy stays as it is, and the lines to add to it are printed."""
    assert run(["init", "first", "--ci", ci]) == 0
    (job,) = [
        path for path in Path().rglob("*") if path.name in ("policies.yaml", ".gitlab-ci.yml")
    ]
    before = job.read_bytes()
    capsys.readouterr()
    assert run(["init", "second", "--ci", ci]) == 0
    out = capsys.readouterr().out
    assert f"kept {job}, which exists already" in out
    assert "policy-sched fmt --check 'second'" in out
    assert job.read_bytes() == before
    assert Path("second/policy.yaml").exists()


def test_the_commands_to_type_next_are_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with a space can be pasted into a shell."""
    assert run(["init", "my dir", "--ci", "none"]) == 0
    assert "next: policy-sched check 'my dir' && policy-sched test 'my dir'" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--name", "gpuNodes"], "is no name of a policy: a letter A-Z, then letters and"),
        (["x", "--name", "gpuNodes"], "use --name GpuNodes"),
        (["file"], "file is a file; DIR is the directory of a policy"),
    ],
)
def test_a_slip_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name in lower case and a file in place of a directory are named, with the cure."""
    Path("file").write_text("", "utf-8")
    assert run(["init", *arguments, "--ci", "none"]) == 2
    assert message in capsys.readouterr().err
    assert run(["init", "mine", "--ci", "none"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [["123"], ["mine", "--name", "no name"], ["it's"], ["mine", "--package", "x'; rm y"]],
)
def test_what_would_be_a_broken_policy_or_job_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and paths that do not fit into the files are usage errors."""
    assert run(["init", *arguments]) == 2
    assert capsys.readouterr().err.startswith("policy-sched: ")


def test_without_an_address_the_ci_job_installs_a_wheel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job named a package that no index has; now it names a wheel, and the output names it."""
    monkeypatch.setattr("policy_sched.cli.init._installed_from", str)
    assert run(["init", "mine"]) == 0
    wheel = f"./policy_sched-{__version__}-py3-none-any.whl"
    assert f"pip install '{wheel}'" in Path(".github/workflows/policies.yaml").read_text("utf-8")
    assert f"the CI job installs {wheel}: add that file" in capsys.readouterr().out


def test_links_of_a_repository_lead_to_no_file_of_the_user(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links that led nowhere yet made `init` write start files of a shell and of a desktop."""
    home, repository = empty_folder / "home", empty_folder / "repository"
    home.mkdir()
    (repository / ".git").mkdir(parents=True)
    (repository / "a").mkdir()
    (repository / "a/policy.yaml").symlink_to(home / ".profile")
    (repository / "b").symlink_to(home)
    (repository / ".gitlab-ci.yml").symlink_to(home / "job")
    for folder, why in (("a", "exists already"), ("b", "b is a symbolic link to")):
        assert run(["init", f"{repository}/{folder}", "--name", "A", "--ci", "none"]) == 2
        assert why in capsys.readouterr().err
    with contextlib.chdir(repository):
        assert run(["init", "c", "--ci", "gitlab"]) == 0
    assert list(home.iterdir()) == []
