"""Checking policies and configurations together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.profiles.check.check import check_files
from policy_sched.profiles.models.defaults import policies_directory

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Fixed}
spec:
  params: {most: 80}
  score:
    expression: "node.unschedulable ? 0 : params.most"
"""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Fixed}]
  pluginConfig:
  - name: Fixed
    args: {ARGS}
"""


def write(folder: Path, args: str) -> tuple[str, str]:
    """Write a policy and a configuration that enables it; return their names."""
    policy, config = folder / "policy.yaml", folder / "config.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    config.write_text(CONFIGURATION.replace("ARGS", args), encoding="utf-8")
    return str(policy), str(config)


def test_a_policy_must_come_along(tmp_path: Path) -> None:
    """A configuration finds the policies that are checked with it, in files or a directory."""
    policy, config = write(tmp_path, "most: 70")
    assert not check_files([policy, config])
    assert not check_files([str(tmp_path)])
    assert {(p.code, p.line) for p in check_files([config])} == {("PS705", 6), ("PS705", 8)}


def test_rules_are_checked_with_the_profiles_parameters(tmp_path: Path) -> None:
    """A score that only a profile's parameters drive out of range is found in the rule."""
    policy, config = write(tmp_path, "most: 200")
    (problem,) = check_files([policy, config])
    assert (problem.file, problem.line, problem.code) == (policy, 7, "PS321")


def test_a_key_that_a_new_map_lacks_is_told_in_the_rule(tmp_path: Path) -> None:
    """A map in args replaces the default, so a rule may name a key that is there no more.

    A key that is asked for first, or as an optional, is no mistake.
    """
    policy, config = write(tmp_path, "weights: {memory: 2}")
    text = POLICY.replace("{most: 80}", "{weights: {cpu: 1, memory: 2}}")
    rule = "'{} ? params.weights.memory : params.weights[?\"cpu\"].orValue(3)'"
    Path(policy).write_text(
        re.sub("expression: .*", f"expression: {rule.format('node.ready')}", text)
    )
    assert not check_files([policy, config])
    wrong = rule.format("params.weights.cpu > 3")
    Path(policy).write_text(re.sub("expression: .*", f"expression: {wrong}", text))
    (problem,) = check_files([policy, config])
    assert (problem.file, problem.line, problem.code) == (policy, 7, "PS102")
    assert problem.message == "params.weights has no key `cpu`"
    assert problem.hint == "its keys: memory; a map in args replaces the whole default"


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_other_kinds_are_for_other_commands(tmp_path: Path, kind: str) -> None:
    """A manifest is refused where it is named, and passed over in a directory."""
    path = tmp_path / "manifest.yaml"
    path.write_text(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\n", encoding="utf-8")
    (problem,) = check_files([str(path)])
    assert (problem.code, problem.line, problem.column) == ("PS706", 2, 7)
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    assert not check_files([str(tmp_path)])


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    """A path that does not exist is reported, not passed over."""
    (problem,) = check_files([str(tmp_path / "none.yaml")])
    assert problem.message == "cannot read the file: No such file or directory"


BOMBS = {
    "parameters": POLICY.replace("most: 80", ", ".join(f"p{i}: {i}" for i in range(20_000))),
    "fields of a list's records": POLICY.replace(
        "most: 80", f"most: [{{{', '.join(f'p{i}: {i}, q{i}: a' for i in range(10_000))}}}]"
    ),
    "deep parameters": POLICY.replace("most: 80", "most: " + "[" * 60 + "1" + "]" * 60),
    "parameters of a function": POLICY.replace(
        "  score:",
        "  functions:\n  - name: f\n    expression: '1'\n    params: {"
        + ", ".join(f"p{i}: int" for i in range(20_000))
        + "}\n  score:",
    ),
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_policies_beyond_a_limit_are_refused_first(tmp_path: Path, text: str) -> None:
    """20,000 parameters took longer than 30 s to check; their number alone is reported now."""
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    assert [one.code for one in check_files([str(path)])] == ["PS501"]


def test_arguments_beyond_a_limit_are_refused(tmp_path: Path) -> None:
    """A profile's arguments may add fields to an empty mapping, and are counted with them."""
    fields = ", ".join(f"p{i}: {i}, q{i}: a" for i in range(1_000))
    policy, config = write(tmp_path, f"{{most: 1, more: {{{fields}}}}}")
    text = POLICY.replace("most: 80", "most: 80, more: {}")
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    Path(config).write_text(CONFIGURATION.replace("{ARGS}", f"{{more: {{{fields}}}}}"), "utf-8")
    assert "PS501" in [one.code for one in check_files([policy, config])]


def test_duplicate_keys_are_reported_a_hundred_times(tmp_path: Path) -> None:
    """20,000 duplicate keys filled the terminal; the first hundred and their number do."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + "a: 1\n" * 20_000, encoding="utf-8")
    found = check_files([str(path)])
    assert len(found) == 101
    assert found[-1].message == "and 19900 more problems in this file"


def test_policies_alone_are_checked_without_plugins() -> None:
    """A check of policies starts a tenth faster than one that imports plugins and framework."""
    script = (
        "import sys; from policy_sched.profiles.check import check_files; "
        f"assert not check_files([{str(policies_directory() / 'gang')!r}]); "
        "heavy = {'policy_sched.plugins', 'policy_sched.framework'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("name", ["a\\0b.yaml", "x" * 300])
def test_a_file_that_no_file_system_can_have_is_not_there(name: str, tmp_path: Path) -> None:
    """A claim about such a file ended check with a traceback."""
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: PolicyProof\nname: none\n"
        f'policies: ["{name}"]\nclaims: [{{name: passes, always: passes}}]\n'
    )
    (problem,) = check_files([str(claims)])
    assert "claims.yaml:4:1: error PS707" in problem.render()
    assert "is not there" in problem.render()
