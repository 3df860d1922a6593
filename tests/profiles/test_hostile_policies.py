"""Policies and configurations that are made to exhaust a command are refused with a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.profiles.load.configuration import MAX_PROFILES
from policy_sched.profiles.load.policies import MAX_RULE_TEXT
from policy_sched.source.documents import MAX_VALUES

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Hostile}\nspec:\n"
RULE = "  filter:\n  - {expression: 'node.name != \"a\"', message: no}\n"
CONDITION = "node.name != '' && " * 300 + "true"
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p1}
spec: {containers: [{name: c, image: i}]}
"""


def with_params(values: int) -> str:
    """Return a policy that has lists of a thousand numbers among its params."""
    row = ", ".join(["1"] * 1000)
    lists = "".join(f"    p{i}: [{row}]\n" for i in range(values // 1000))
    return f"{HEAD}  params:\n{lists}{RULE}"


def with_rules(text: int) -> str:
    """Return a file of several policies whose rules have so many characters."""
    rule = f'  filter:\n  - {{expression: "{CONDITION}", message: no}}\n'
    count = 1 + text // len(CONDITION)
    return "".join(f"---\n{HEAD.replace('Hostile', f'Hostile{i}')}{rule}" for i in range(count))


def with_profiles(count: int) -> str:
    """Return a configuration of so many profiles."""
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return head + "profiles:\n" + "".join(f"- {{schedulerName: s{i}}}\n" for i in range(count))


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return a file with a node and a pod."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "option", "where"),
    [
        (with_params(MAX_VALUES + 1000), "--policies", "PS701: the file holds more than 50000"),
        (with_rules(MAX_RULE_TEXT), "--policies", "PS501: the rules of this file have more"),
        (with_profiles(MAX_PROFILES + 1), "--config", "PS501: profiles: Too many: 101: must"),
    ],
    ids=["values", "rules", "profiles"],
)
def test_files_beyond_a_limit(
    text: str,
    option: str,
    where: str,
    cluster: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command refuses the file at the place where the limit is exceeded.

    400 lists of 1,000 numbers took `check` 6 s and `simulate` 9 s, 500 policies of long rules 13 s
    and 40 s, 30,000 profiles 53 s and 630 MB.
    """
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    for command in (
        ["check", str(file)],
        ["simulate", cluster, option, str(file)],
        ["explain", "default/p1", "--cluster", cluster, option, str(file)],
        ["diff", str(file), str(file)],
        ["run", "--secure-port", "0", option, str(file)],
    ):
        assert run(command) == 1, command
        shown = capsys.readouterr()
        lines = [line for line in (shown.out + shown.err).splitlines() if where in line]
        assert len(lines) == 1, shown.out + shown.err
        assert lines[0].startswith(f"{file}:")


def test_fmt_has_the_limit_of_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Formatting 500 policies of long rules took a minute."""
    file = tmp_path / "policy.yaml"
    file.write_text(with_rules(MAX_RULE_TEXT), encoding="utf-8")
    assert run(["fmt", "--check", str(file)]) == 1
    shown = capsys.readouterr()
    assert "PS501: the rules of this file have more than" in shown.out + shown.err


def test_files_within_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is as large as it may be passes."""
    for text in (with_params(MAX_VALUES - 2000), with_rules(MAX_RULE_TEXT - len(CONDITION))):
        file = tmp_path / "large.yaml"
        file.write_text(text, encoding="utf-8")
        run(["check", str(file)])
        shown = capsys.readouterr().out
        assert "PS701" not in shown
        assert "PS501: the rules" not in shown
