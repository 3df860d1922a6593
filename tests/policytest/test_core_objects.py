"""Promises of `object`: rules read any field of pods and nodes, in tests as in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Objects}
spec:
  filter:
  - expression: '!pod.object.spec.hostPID || node.object.spec.podCIDR.startsWith("10.")'
    message: no address of its own
  - expression: node.pods.all(p, p.object.spec.restartPolicy != "Never")
    message: beside a job
  score:
    expression: 'node.object.status.addresses.exists(a, a.type == "ExternalIP") ? 100 : 0'
"""
TEST = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: objects
policies: [policy.yaml]
objects:
- apiVersion: v1
  kind: Node
  metadata: {name: n1}
  spec: {podCIDR: 10.0.0.0/24}
  status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}
- apiVersion: v1
  kind: Node
  metadata: {name: n2}
  spec: {podCIDR: 11.0.0.0/24}
  status:
    allocatable: {cpu: 8, memory: 8Gi, pods: 10}
    addresses: [{type: ExternalIP, address: 11.0.0.1}]
- {node: n3, cpu: 8}
- apiVersion: v1
  kind: Pod
  metadata: {name: job}
  spec: {nodeName: n3, restartPolicy: Never, containers: [{name: c, image: x}]}
pending:
- {pod: plain}
- apiVersion: v1
  kind: Pod
  metadata: {name: host}
  spec: {hostPID: true, containers: [{name: c, image: x}]}
expect:
- {pod: plain, chosen: n2, rejected: {n3: {reasons: beside a job}}}
- {pod: host, chosen: n1, rejected: {n2: {reasons: no address of its own}}}
"""


def test_rules_read_fields_that_scheduling_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule that wanted hostPID, a node's addresses or a restart policy could not be written."""
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "test.yaml").write_text(TEST, encoding="utf-8")
    assert run(["test", str(tmp_path / "test.yaml")]) == 0, capsys.readouterr()


def test_ps802_a_field_that_kubernetes_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt field of an object is told before the policy runs, with the right one."""
    wrong = POLICY.replace("hostPID", "hostPid")
    (tmp_path / "policy.yaml").write_text(wrong, encoding="utf-8")
    assert run(["check", str(tmp_path / "policy.yaml")]) == 1
    said = capsys.readouterr()
    told = "error PS802: pod.object.spec has no field 'hostPid'; did you mean 'hostPID'?"
    assert told in said.out + said.err
