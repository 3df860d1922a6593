"""``--max-cost-limit``: one option with one meaning in every verb that compiles policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata:
  name: Expensive
  annotations: {policysched.dev/cost-limit: "5000"}
spec:
  filter:
  - expression: node.podCount < 10
    message: node(s) had too many pods
"""
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""
TEST = """
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: fits
policies: [policy.yaml]
objects: [{node: a}]
pending: [p]
expect: [{pod: p, chosen: a}]
"""
COMMANDS = (
    ["check", "policy.yaml"],
    ["simulate", "cluster.yaml", "--policies", "policy.yaml"],
    ["explain", "p", "--cluster", "cluster.yaml", "--policies", "policy.yaml"],
    ["diff", "default", "policy.yaml"],
    ["diff", "policy.yaml", "default", "--cluster", "cluster.yaml"],
    ["eval", "node.podCount", "--cluster", "cluster.yaml", "--policy", "policy.yaml"],
    ["test", "test.yaml"],
    ["test", "--update", "test.yaml"],
    ["manifests", "--policies", "policy.yaml"],
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work beside a policy that raises its own limit."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "test.yaml").write_text(TEST)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_operator_limits_what_a_policy_may_ask_for(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every verb refuses a policy that asks for more than the operator allows."""
    assert run(command) == 0
    capsys.readouterr()
    assert run([*command, "--max-cost-limit", "1000"]) == 1
    out, err = capsys.readouterr()
    assert "Invalid value: 5000: more than 1000, which --max-cost-limit allows" in out + err
    assert run([*command, "--max-cost-limit", "5000"]) == 0


def test_the_deployment_runs_with_the_same_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """`manifests --max-cost-limit` passes the limit to `run` in the cluster."""
    command = ["manifests", "--policies", "policy.yaml"]
    assert run([*command, "--max-cost-limit", "6000"]) == 0
    assert "--max-cost-limit=6000" in capsys.readouterr().out
    assert run(command) == 0
    assert "--max-cost-limit" not in capsys.readouterr().out
