"""Promises of verbs that read objects of inputs from files: each takes what `simulate` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run

SCHEMA = """\
{"type": "object", "properties": {"spec": {"type": "object", "properties": {"pods": {"type": "integer"}}}}}
"""  # noqa: E501 - a schema on a line
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  inputs:
  - {name: quota, apiVersion: example.com/v1, kind: Quota, schema: quota.json, key: object.name}
  filter:
  - expression: inputs.quota[?pod.namespace].optMap(q, q.spec.pods > 0).orValue(true)
    message: the team has no quota
"""
OBJECTS = """\
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {podCIDR: 10.0.0.0/24}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: example.com/v1
kind: Quota
metadata: {name: default}
spec: {pods: 3}
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {hostPID: true, containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
"""
EXPERIMENT = """\
apiVersion: policysched.dev/v1alpha1
kind: Experiment
metadata: {name: quotas}
spec:
  base: {policies: [policy.yaml]}
  cluster: {files: [objects.yaml]}
  workload: {files: [pods.yaml]}
  seeds: [1]
  measures: [{name: cpu, allocation: cpu}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a policy, its schema, objects and pods."""
    texts = {"quota.json": SCHEMA, "policy.yaml": POLICY, "objects.yaml": OBJECTS}
    for name, text in {**texts, "pods.yaml": PODS, "experiment.yaml": EXPERIMENT}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_eval_reads_objects_of_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An expression over an input had no object, and files with objects were refused."""
    expression = 'inputs.quota[?"default"].optMap(q, q.spec.pods).orValue(0)'
    given = ["--policy", str(folder / "policy.yaml"), "--cluster", str(folder / "objects.yaml")]
    assert run(["eval", expression, *given]) == 0
    assert "value  3" in capsys.readouterr().out


def test_eval_reads_any_field(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that scheduling does not decode has its value in an expression by itself."""
    given = ["--pod", str(folder / "pods.yaml"), "--cluster", str(folder / "objects.yaml")]
    assert run(["eval", 'pod.object.spec.hostPID ? node.object.spec.podCIDR : ""', *given]) == 1
    capsys.readouterr()
    objects = OBJECTS.partition("---")[0]
    (folder / "objects.yaml").write_text(objects, encoding="utf-8")
    assert run(["eval", 'pod.object.spec.hostPID ? node.object.spec.podCIDR : ""', *given]) == 0
    assert 'a  "10.0.0.0/24"' in capsys.readouterr().out


def test_check_against_a_snapshot_with_objects(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --cluster` refused the kind that the policy itself declares (PS706)."""
    policy, cluster = str(folder / "policy.yaml"), str(folder / "objects.yaml")
    assert run(["check", policy, "--cluster", cluster]) == 0, capsys.readouterr()


@pytest.mark.parametrize(("pods", "placed"), [("3", True), ("0", False)])
def test_experiments_have_the_objects(
    folder: Path, capsys: pytest.CaptureFixture[str], pods: str, placed: bool
) -> None:
    """`sweep` refused the kind, so that no policy with inputs could be compared."""
    text = OBJECTS.replace("pods: 3}", f"pods: {pods}}}")
    (folder / "objects.yaml").write_text(text, encoding="utf-8")
    given = [str(folder / "experiment.yaml"), "--results", str(folder / "results"), "-o", "json"]
    assert run(["sweep", *given]) == 0, capsys.readouterr()
    assert ('"mean": 25.0' in capsys.readouterr().out) is placed


def test_check_tells_of_keys_and_objects_that_do_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys that no object has, and objects that no input can have, showed when pods waited."""
    bad = OBJECTS.replace("name: default}", "name: team-a}") + (
        "---\napiVersion: example.com/v1\nkind: Quota\nmetadata: {name: bad}\nspec: {pods: many}\n"
    )
    (folder / "objects.yaml").write_text(f"{bad}---\n{PODS}", encoding="utf-8")
    policy, cluster = str(folder / "policy.yaml"), str(folder / "objects.yaml")
    assert run(["check", policy, "--cluster", cluster]) == 0
    said = capsys.readouterr().out
    assert "warning PS805: Quota default/bad: " in said or "warning PS805: Quota bad: " in said
    assert "warning PS410: no pod of the snapshot finds an object of inputs.quota" in said
    (folder / "objects.yaml").write_text(f"{OBJECTS}---\n{PODS}", encoding="utf-8")
    assert run(["check", policy, "--cluster", cluster]) == 0
    assert "no problems found" in capsys.readouterr().out


AMOUNTS = '{"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}}'
QUEUES = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Queues}
spec:
  inputs:
  - {name: queue, apiVersion: example.com/v1, kind: Queue, schema: queue.json, key: object.name}
  quotas:
  - name: queue
    of: inputs.queue
    pods: pod.labels[?"queue"].orValue("")
    nominal: object.spec.own
    limit: object.spec.most
    parent: object.labels[?"parent"].orValue("")
    inner: INNER
  preFilter:
    rules:
    - {expression: '(quota.used + pod.requests).fitsIn(quota.limit, "unlimited")', message: limit}
"""


def queue(name: str, parent: str, spec: str) -> str:
    """Return a Queue."""
    named = f"{{name: {name}, labels: {{parent: '{parent}'}}}}"
    return f"---\napiVersion: example.com/v1\nkind: Queue\nmetadata: {named}\nspec: {spec}\n"


def test_ps822_check_tells_of_quotas_that_grant_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quota above its limit, and circles, showed when pods of the team waited for ever."""
    spec = f'{{"type": "object", "properties": {{"own": {AMOUNTS}, "most": {AMOUNTS}}}}}'
    schema = f'{{"type": "object", "properties": {{"spec": {spec}}}}}'
    (tmp_path / "queue.json").write_text(schema, encoding="utf-8")
    objects = [
        queue("all", "", "{own: {cpu: 10}}"),
        queue("a", "all", "{own: {cpu: 8, memory: 1Gi}, most: {cpu: 6}}"),
        queue("b", "all", "{own: {cpu: 4}, most: {cpu: 4}}"),
        queue("x", "y", "{}"),
        queue("y", "x", "{}"),
    ]
    node = OBJECTS.partition("---")[0]
    (tmp_path / "objects.yaml").write_text("".join([node, *objects]), encoding="utf-8")
    policy, cluster = str(tmp_path / "policy.yaml"), str(tmp_path / "objects.yaml")
    told = {}
    for inner in ("caps", "adds"):
        text = QUEUES.replace("INNER", inner)
        (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
        assert run(["check", policy, "--cluster", cluster]) == 0
        told[inner] = capsys.readouterr().out
        above = "warning PS822: Queue a: its nominal cpu 8 is above its limit, 6"
        assert f"policy.yaml:6:12: {above}" in told[inner].replace(f"{tmp_path}/", ""), told[inner]
        circle = "its parents are a circle: x -> y -> x; it counts as a root"
        assert f"warning PS821: Queue x: {circle}" in told[inner]
        assert "Queue b" not in told[inner]
    capped = (
        "what its children have, cpu 12, is above its own, 10;"
        " what its children have, memory 1Gi, is above its own, 0"
    )
    assert f"warning PS822: Queue all: {capped}" in told["caps"]
    assert "Queue all" not in told["adds"]


def test_check_tells_of_an_input_that_nothing_reads(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its objects were followed for nothing, and its kind had to be there."""
    rule = "inputs.quota[?pod.namespace].optMap(q, q.spec.pods > 0).orValue(true)"
    text = POLICY.replace(rule, "node.ready")
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    assert run(["check", str(folder / "policy.yaml")]) == 0
    assert "warning PS404: no rule reads inputs.quota" in capsys.readouterr().out
