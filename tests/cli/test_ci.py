"""What we offer to builds: the pre-commit hooks and the workflow of the manual call what exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.cli.app import VERBS, app
from policy_sched.cli.input.paths import MisspeltOptionError
from policy_sched.cli.main import run
from policy_sched.profiles.load.document import files_of_ours
from tests.shown import ROOT, page

MANUAL = page("docs/policy-guide.md")
HOOKS = yaml.load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


def documents(key: str) -> list[Any]:
    """Return the YAML examples of the manual that have a key."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", MANUAL, re.MULTILINE | re.DOTALL)
    loaded = [document for block in blocks for document in yaml.load_all(block, yaml.CSafeLoader)]
    return [document for document in loaded if key in document]


def first_block(heading: str) -> str:
    """Return the first YAML example below a heading."""
    match = re.search(
        r"^```yaml\n(.*?)^```", MANUAL.partition(heading)[2], re.MULTILINE | re.DOTALL
    )
    assert match is not None
    return match[1]


def parsed(line: str) -> None:
    """Fail if a command line names a verb, an option or a value that does not exist."""
    program, *arguments = shlex.split(line)
    assert program == "policy-sched"
    assert arguments[0] in VERBS
    app.parse_args(arguments, exit_on_error=False, print_error=False)


def test_a_line_with_an_unknown_option_would_be_found() -> None:
    """The check that the other tests use finds what does not exist."""
    with pytest.raises(MisspeltOptionError):
        parsed("policy-sched check policies --stricct")


def test_the_hooks_call_what_exists() -> None:
    """Three hooks; each entry with its arguments is a command line that is understood."""
    assert [hook["id"] for hook in HOOKS] == ["policy-check", "policy-fmt", "policy-test"]
    for hook in HOOKS:
        files = [] if hook.get("pass_filenames") is False else ["policies/default/policy.yaml"]
        parsed(shlex.join([*shlex.split(hook["entry"]), *hook.get("args", []), *files]))


def test_the_hooks_take_the_files_that_they_are_for() -> None:
    """Each shipped policy, test and configuration is checked, manifests are passed over."""
    pattern = re.compile(HOOKS[0]["files"])
    files = [str(file) for file in (ROOT / "policies").rglob("*.yaml") if pattern.search(str(file))]
    ours = files_of_ours(files)
    assert [file for file in files if file not in ours] == [
        file for file in files if "manifests" in file
    ]
    some = [file for file in files if "gang" in file]  # test_check.py checks all of them
    assert run([*shlex.split(HOOKS[0]["entry"])[1:], *some]) == 0


OTHERS = {
    ".gitlab-ci.yml": "stages: [test]\njob: {script: !reference [.x, script]}\n",
    "chart/templates/deployment.yaml": "apiVersion: apps/v1\n{{- if .V }}\nkind: X\n{{- end }}\n",
    "chart/templates/policy.yaml": "apiVersion: policysched.dev/v1\n{{ toYaml .V }}\n: [\n",
    "config-map.yaml": "apiVersion: v1\nkind: ConfigMap\ndata:\n  p.yaml: |\n    "
    "apiVersion: policysched.dev/v1alpha1\n    kind: Policy\n",
    "kyverno.yaml": "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: x}\n",
    "cut.yaml": "a: [1, 2\n",
    "package.json": '{"name": "x"}',
    "empty.yaml": "",
}
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec: {score: {expression: "1"}}
"""


def test_the_hooks_pass_over_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hooks refused Helm templates and .gitlab-ci.yml, and rewrote what was not ours."""
    monkeypatch.chdir(tmp_path)
    for name, text in OTHERS.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    for hook in HOOKS[:2]:
        assert run([*shlex.split(hook["entry"])[1:], *OTHERS]) == 0
        assert run([*shlex.split(hook["entry"])[1:], "."]) == 0
    assert {name: Path(name).read_text() for name in OTHERS} == OTHERS
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (POLICY.replace("score", "scroe"), 'unknown field "spec.scroe"'),
        (POLICY.replace("policysched", "policyshed"), "there is no policy"),
        (POLICY.replace("apiVersion: policysched.dev/v1alpha1\n", ""), "there is no policy"),
        (POLICY + "  x: [\n", "did not find expected"),
        (POLICY + f"---\n{OTHERS['kyverno.yaml']}", None),
    ],
)
def test_the_hooks_refuse_what_is_wrong_with_ours(
    text: str, problem: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken policy, or one whose apiVersion is misspelt or missing, is no other file."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    code = run(["check", "--ignore-unknown", str(file)])
    assert (code, (problem or "no problems found") in capsys.readouterr().out) == (
        int(problem is not None),
        True,
    )


def test_the_manual_configures_hooks_that_exist() -> None:
    """The example of a .pre-commit-config.yaml names our hooks."""
    (example,) = documents("repos")
    named = [hook["id"] for hook in example["repos"][0]["hooks"]]
    assert sorted(named) == sorted(hook["id"] for hook in HOOKS)


RUNS_ANYWAY = "${{ !cancelled()"


def test_the_workflow_calls_what_exists_and_keeps_its_report() -> None:
    """A failed `fmt` ended the workflow, so nothing told what the pull request would move."""
    (workflow,) = documents("jobs")
    steps = workflow["jobs"]["policies"]["steps"]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    ours = [line.partition(" > ") for line in lines if line.startswith("policy-sched ")]
    assert [shlex.split(line)[1] for line, _, _ in ours] == ["fmt", "check", "test", "diff"]
    for line, _, _ in ours:
        parsed(line)
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert [file for _, _, file in ours if file] == [upload["with"]["path"]]
    after_install = steps[[step.get("id") for step in steps].index("install") + 2 :]
    assert [step for step in after_install if not step["if"].startswith(RUNS_ANYWAY)] == []


def test_the_gitlab_pipeline_calls_what_exists() -> None:
    """Every policy-sched line is understood, and each file that it writes is an artifact."""
    (pipeline,) = (
        document for document in documents("policies") if isinstance(document["policies"], dict)
    )
    job = pipeline["policies"]
    commands = [line for line in job["script"] if line.startswith("policy-sched ")]
    assert [line for line in commands if not line.endswith(" || failed=1")] == []
    ours = [line.removesuffix(" || failed=1").partition(" > ") for line in commands]
    assert [shlex.split(line)[1] for line, _, _ in ours] == ["diff", "test", "check"]
    for line, _, _ in ours:
        parsed(line)
    kept = job["artifacts"]
    assert {file for _, _, file in ours} == {*kept["paths"], *kept["reports"].values()}


@pytest.mark.parametrize("heading", ["A GitHub workflow", "## In GitLab"])
def test_the_comment_of_a_rewrite_says_that_no_decision_can_change(
    heading: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """GitHub and GitLab: the line comes first, and the cluster is simulated for other changes."""
    (line,) = re.findall(r"(policy-sched diff .*) > diff.md", first_block(heading))
    monkeypatch.chdir(tmp_path)
    Path("cluster").symlink_to(ROOT / "policies" / "example-cluster" / "manifests")
    shown = []
    for rule in ("pod.priority >= 6", "pod.priority >= 7"):
        for folder, filtered in (("before/policies", "pod.priority > 5"), ("policies", rule)):
            Path(folder).mkdir(parents=True, exist_ok=True)
            spec = f"{{filter: [{{expression: {filtered}}}]}}"
            text = POLICY.replace('{score: {expression: "1"}}', spec)
            Path(folder, "policy.yaml").write_text(text)
        run(shlex.split(line)[1:])
        shown.append(capsys.readouterr().out)
    said = "**No decision can change (proven: `P` decides as before for every pod and node).**"
    assert shown[0].split("\n")[2] == said
    assert ["### On the cluster" in text for text in shown] == [False, True]
    assert said not in shown[1]


def test_the_gitlab_job_of_init_keeps_reports_of_a_failed_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that was not formatted ended the job before its test results were written."""
    monkeypatch.chdir(tmp_path)
    assert run(["init", "mine", "--ci", "gitlab"]) == 0
    policy = Path("mine/policy.yaml")
    policy.write_text(policy.read_text("utf-8").replace("100 - percent", "100-percent"), "utf-8")
    program = Path("bin/policy-sched")
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m policy_sched "$@"\n', "utf-8")
    program.chmod(0o700)
    job = yaml.load(Path(".gitlab-ci.yml").read_text("utf-8"), yaml.CSafeLoader)["policies"]
    script = "\n".join(line for line in job["script"] if not line.startswith("pip "))
    env = {**os.environ, "PATH": f"{program.parent.resolve()}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(["bash", "-e", "-c", script], check=False, capture_output=True, env=env)
    assert ended.returncode == 1
    assert b"mine/policy.yaml" in ended.stdout + ended.stderr
    for report in job["artifacts"]["reports"].values():
        assert Path(report).stat().st_size > 0


def test_the_page_of_the_command_line_has_the_exit_codes() -> None:
    """Those that the command line returns, and no other."""
    codes = re.findall(r"^\| (\d+) \|", page("docs/cli.md"), re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "130", "141"]


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    """The manual's PolicyTest runs as it is, with the manual's policy and configuration."""
    policy = first_block("# Policy guide")
    tests = first_block("## Tests of policies")
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    (tmp_path / "tests.yaml").write_text(tests, encoding="utf-8")
    code = app(["test", str(tmp_path)], exit_on_error=False, result_action="return_value")
    assert code == 0
