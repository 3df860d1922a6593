"""Promises of tests that state what quotas have: amounts by resource, mistakes, and updates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Teams}
spec:
  inputs:
  - name: team
    apiVersion: example.com/v1
    kind: Team
    schema: team.json
    key: object.namespace
  quotas:
  - name: team
    of: inputs.team
    pods: pod.namespace
    nominal: object.spec.own
    limit: object.spec.most
  preFilter:
    rules:
    - expression: '!quota.exists || (quota.used + pod.requests).fitsIn(quota.limit, "unlimited")'
      message: the limit is reached
"""
AMOUNTS = """{"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}}"""
SCHEMA = f"""\
{{"type": "object", "properties": {{"spec": {{"type": "object", "properties": {{
  "own": {AMOUNTS}, "most": {AMOUNTS}}}}}}}}}
"""
TEST = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: teams
policies: [policy.yaml]
objects:
- {node: n1, cpu: 8, memory: 16Gi}
- {team: a, namespace: a, spec: {own: {cpu: 2, memory: 8Gi}, most: {cpu: 6}}}
- {team: b, namespace: b, spec: {own: {cpu: 4}}}
- {pod: b/runs, node: n1, cpu: 1}
pending: [{pod: a/p, cpu: 3, memory: 1Gi}]
expect:
- pod: a/p
  chosen: n1
  quotas:
"""


def told(
    folder: Path, capsys: pytest.CaptureFixture[str], quotas: str, *options: str
) -> tuple[int, str]:
    """Run a test that states quotas; return the exit code and all that was written."""
    (folder / "team.json").write_text(SCHEMA, encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    file = folder / "test.yaml"
    lines = "".join(f"    {line}\n" for line in quotas.splitlines())
    file.write_text(TEST + lines, encoding="utf-8")
    code = run(["test", str(file), *options])
    written = capsys.readouterr()
    return code, (written.out + written.err).replace(f"{folder}/", "")


def test_amounts_are_stated_as_quantities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A test of a quota could state who is rejected, but not what the quota had."""
    quotas = """\
a:
  used: {cpu: 3000m, memory: 1024Mi, nvidia.com/gpu: 0}
  nominal: {cpu: 2, memory: 8Gi}
  limit: {cpu: 6}
  available: {cpu: -1, memory: 7Gi}
  borrowed: {cpu: "1"}
b: {borrowed: {}, limit: {}, share: 0}
"""
    code, said = told(tmp_path, capsys, quotas)
    assert code == 0, said
    assert "1 of 1 steps as expected" in said


def test_what_differs_is_told_as_quantities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By key, number and resource; a quota that does not exist is told with those that do."""
    quotas = """\
a: {used: {cpu: 2}, limit: {memory: 1Gi}, borrowed: {}}
c: {used: {}}
"""
    code, said = told(tmp_path, capsys, quotas)
    assert code == 1
    for field, expected, got in (
        ("quotas.a.used.cpu", "2", "3"),
        ("quotas.a.limit.memory", "1Gi", "(none)"),
        ("quotas.a.borrowed.cpu", "0", "1"),
        ("quotas.c", "a quota", "no such quota; there are: a, b"),
    ):
        assert f"{field}\n      expected {expected}\n      got      {got}\n" in said, said


def test_mistakes_are_told_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All at once: an unknown number, an amount that is none, and nothing at all."""
    code, said = told(tmp_path, capsys, "a: {usd: {cpu: 2}}\nb: {}\nc: {used: {cpu: lots}}\n")
    assert code == 1
    assert 'test.yaml:15:9: error PS702: unknown field "expect[0].quotas.a.usd"' in said, said
    assert "nothing is stated of the quota" in said
    assert "test.yaml:17:21: error" in said, said
    assert "quantities must match the regular expression" in said


def test_an_update_keeps_what_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Amounts that hold stay as they are written; those that differ become what they are."""
    quotas = "a: {used: {cpu: 3000m, memory: 2Gi}, limit: {cpu: 5, memory: 1Gi}, share: 7}\n"
    told(tmp_path, capsys, quotas, "--update")
    text = (tmp_path / "test.yaml").read_text(encoding="utf-8")
    wanted = "    a: {used: {cpu: 3000m, memory: 1Gi}, limit: {cpu: '6'}, share: 0}\n"
    assert text == TEST + wanted


def test_explain_prints_what_a_pods_quota_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejected pod was told of a limit, and nobody what was used of it, or by whom."""
    told(tmp_path, capsys, "a: {used: {cpu: 3}}\n")
    (tmp_path / "cluster.yaml").write_text(
        """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
apiVersion: example.com/v1
kind: Team
metadata: {name: a, namespace: a}
spec: {own: {cpu: 2, memory: 8Gi}, most: {cpu: 6}}
---
apiVersion: example.com/v1
kind: Team
metadata: {name: b, namespace: b}
spec: {own: {cpu: 500m}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: b}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 7}}}]}
""",
        encoding="utf-8",
    )
    arguments = ["--cluster", str(tmp_path / "cluster.yaml")]
    arguments += ["--policies", str(tmp_path / "policy.yaml")]
    run(["explain", "a/p", *arguments])
    said = capsys.readouterr().out
    assert (
        "  quota a: cpu 0 used of 2, limit 6; memory 0 used of 8Gi\n"
        "  beyond their own: b (cpu 500m)\n"
    ) in said, said
    page = tmp_path / "page.html"
    run(["explain", "a/p", *arguments, "--report", str(page)])
    assert "beyond their own: b (cpu 500m)" in page.read_text(encoding="utf-8")


def test_explain_tells_what_refused_a_victim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod within its quota waited, and nothing said why nobody was evicted for it."""
    config = tmp_path / "config.yaml"
    config.write_text(
        """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {disabled: [{name: DefaultPreemption}]}
""",
        encoding="utf-8",
    )
    (tmp_path / "cluster.yaml").write_text(
        """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 16Gi, pods: 10}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: a, namespace: a}
spec: {min: {cpu: 2}, max: {cpu: 4}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: b, namespace: b}
spec: {min: {cpu: 3}, max: {cpu: 4}}
"""
        + "".join(
            f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {space}}}
spec: {{{node}containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""
            for space, name, node, cpu in (
                ("b", "x", "nodeName: n1, ", 1),
                ("b", "y", "nodeName: n1, ", 2),
                ("a", "own", "nodeName: n1, ", 1),
                ("a", "p", "", 1),
            )
        ),
        encoding="utf-8",
    )
    cluster = str(tmp_path / "cluster.yaml")
    arguments = ["explain", "a/p", "--cluster", cluster, "--config", str(config)]
    run(arguments)
    said = capsys.readouterr().out
    policy = "  no victims for CapacityScheduling: "
    own = "victim.namespace != pod.namespace"
    assert f"{policy}a/own; this is false: {own}\n" in said, said
    borrows = "!victimQuota.used.fitsIn(victimQuota.nominal)"
    assert f"{policy}b/x, b/y; this is false: {borrows}\n" in said, said
    run([*arguments, "-o", "json"])
    refused = json.loads(capsys.readouterr().out)["notVictims"]
    assert {entry["part"]: entry["pods"] for entry in refused} == {
        own: ["a/own"],
        borrows: ["b/x", "b/y"],
    }
    page = tmp_path / "page.html"
    run([*arguments, "--report", str(page)])
    assert "No victims</h2>" in page.read_text(encoding="utf-8")
