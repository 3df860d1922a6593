"""Promises of tests whose policies read inputs: objects of any kind, short forms, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run
from tests.shown import blocks, files, page

SCHEMA = """\
{
  "type": "object",
  "properties": {
    "spec": {"type": "object", "properties": {
      "max": {"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}},
      "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}
  }
}
"""
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  inputs:
  - {name: quota, apiVersion: example.com/v1, kind: Quota, schema: quota.json, key: object.namespace}
  filter:
  - expression: |-
      inputs.quota[?pod.namespace].optMap(q, pod.requests["cpu"] <= q.spec.max["cpu"]).orValue(true)
    message: over quota
    onError: Reject
"""  # noqa: E501 - an input on a line
HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: quotas
policies: [policy.yaml]
"""


def told(
    folder: Path, capsys: pytest.CaptureFixture[str], test: str, policy: str = POLICY
) -> tuple[int, str]:
    """Run a test beside the policy; return the exit code and all that was written."""
    (folder / "quota.json").write_text(SCHEMA, encoding="utf-8")
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    file = folder / "test.yaml"
    file.write_text(HEAD + test, encoding="utf-8")
    code = run(["test", str(file)])
    written = capsys.readouterr()
    return code, (written.out + written.err).replace(f"{folder}/", "")


OBJECTS = """\
objects:
- {node: n1, cpu: 8}
- {quota: a, namespace: team-a, spec: {max: {cpu: 2}}}
- apiVersion: example.com/v1
  kind: Quota
  metadata: {name: b, namespace: team-b}
  spec: {max: {cpu: 500m}}
"""


def test_objects_are_read_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test could not hold a quota: its kind was unknown (PS706)."""
    code, said = told(
        tmp_path,
        capsys,
        OBJECTS
        + """\
pending:
- {pod: team-a/fits, cpu: 2}
- {pod: team-a/large, cpu: 3}
- {pod: team-b/large, cpu: 1}
- {pod: team-c/free, cpu: 1}
expect:
- {pod: team-a/fits, chosen: n1}
- {pod: team-a/large, feasible: [], rejected: {n1: {plugin: Quota, reasons: [over quota]}}}
- {pod: team-b/large, feasible: []}
- {pod: team-c/free, chosen: n1}
""",
    )
    assert (code, said.splitlines()[-1]) == (0, "4 of 4 steps as expected")


def test_ps805_is_told_with_place_for_each_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object that an input cannot have is an error of the test, where the object stands."""
    code, said = told(
        tmp_path,
        capsys,
        """\
objects:
- {node: n1}
- {quota: a, namespace: team-a, spec: {max: {cpu: 2}}}
- {quota: b, namespace: team-a, spec: {max: {cpu: 3}}}
- {quota: c, namespace: team-c, spec: {max: {cpu: many}}}
- {quota: d, namespace: team-d, spec: 7}
pending: [{pod: p}]
expect: [{pod: p, chosen: n1}]
""",
    )
    assert code == 1
    assert "test.yaml:8:3: error PS805: input quota: team-a/a has the key 'team-a', too" in said
    assert "test.yaml:9:3: error PS805: input quota: quantities must match" in said
    assert "test.yaml:10:3: error PS805: input quota: Expected `object`, got `int`" in said


TREE = POLICY.replace(
    "  filter:",
    """\
  quotas:
  - name: team
    of: inputs.quota
    pods: pod.namespace
    nominal: object.spec.max
    parent: object.labels[?"parent"].orValue("")
  filter:""",
)


def test_ps821_is_told_where_each_object_of_a_circle_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quotas that are each other's parent are an error of the test; a chain of them is none."""
    test = """\
objects:
- {node: n1}
- {quota: a, namespace: team-a, labels: {parent: team-b}, spec: {max: {cpu: 2}}}
- {quota: b, namespace: team-b, labels: {parent: team-a}, spec: {max: {cpu: 2}}}
pending: [{pod: team-a/p, cpu: 1}]
expect: [{pod: team-a/p, chosen: n1}]
"""
    code, said = told(tmp_path, capsys, test, TREE)
    why = "its parents are a circle: team-a -> team-b -> team-a; it counts as a root"
    assert code == 1
    assert f"test.yaml:7:3: error PS821: input quota: {why}" in said
    assert f"test.yaml:8:3: error PS821: input quota: {why}" in said
    chain = test.replace("labels: {parent: team-a}, ", "")
    assert told(tmp_path, capsys, chain, TREE)[0] == 0


def test_other_kinds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that no input declares is as unknown as before, and a misspelt one suggested."""
    code, said = told(
        tmp_path,
        capsys,
        """\
objects:
- {node: n1}
- {apiVersion: example.com/v1, kind: Quotas, metadata: {name: a}}
pending: [{pod: p}]
expect: [{pod: p, chosen: n1}]
""",
    )
    assert code == 1
    assert "test.yaml:7:38: error PS706: unknown kind 'Quotas' of 'example.com/v1'" in said


def test_ps803_names_what_has_no_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field whose type the schema leaves open says how to state it, and is read then."""
    reads = POLICY.replace('q.spec.max["cpu"]', 'quantity(q.spec.any["cpu"])')
    test = OBJECTS.replace("spec: {max: {cpu: 2}}", "spec: {any: {cpu: '2'}}")
    test += "pending: [{pod: team-a/p, cpu: 3}]\nexpect: [{pod: team-a/p, feasible: []}]\n"
    code, said = told(tmp_path, capsys, test, reads)
    assert code == 1
    assert "error PS803: the schema does not state the type of inputs.quota.spec.any" in said
    assert "state it in the input: `fields: {spec.any: TYPE}`" in said
    stated = reads.replace("key: object", "fields: {spec.any: 'map(string, string)'}, key: object")
    assert told(tmp_path, capsys, test, stated)[0] == 0


def test_simulate_reads_declared_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`simulate` refused manifests of custom kinds; it reads those that a policy declares."""
    (tmp_path / "quota.json").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}
---
apiVersion: example.com/v1
kind: Quota
metadata: {name: a, namespace: team-a}
spec: {max: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team-a}
spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}
""",
        encoding="utf-8",
    )
    run(["simulate", str(cluster), "--policies", str(tmp_path / "policy.yaml")])
    assert "0/1 nodes are available: 1 over quota." in capsys.readouterr().out
    run(["simulate", str(cluster)])
    assert "PS706: unknown kind 'Quota'" in capsys.readouterr().err


WATCHER = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Load}
spec:
  inputs:
  - {name: watcher, url: "http://w/", poll: 30s, items: data.nodes, schema: watcher.json}
  filter:
  - expression: |-
      inputs.watcher[?node.name].optMap(n, n.cpu < inputs.watcher.root.limit).orValue(true)
    message: loaded
"""
ANSWER_SCHEMA = """\
{"type": "object", "properties": {
  "limit": {"type": "number"},
  "data": {"type": "object", "properties": {"nodes": {"type": "object", "additionalProperties":
    {"type": "object", "properties": {"cpu": {"type": "number"}}}}}}
}}
"""


def test_what_a_url_answers_stands_in_the_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measurements that are polled could not be stated: a policy that reads them had no test."""
    (tmp_path / "watcher.json").write_text(ANSWER_SCHEMA, encoding="utf-8")
    test = """\
inputs: {watcher: {limit: 50, data: {nodes: {n1: {cpu: 70.5}, n2: {cpu: 20}}}}}
objects: [{node: n1}, {node: n2}, {node: n3}]
pending: [{pod: p}]
expect: [{pod: p, feasible: [n2, n3]}]
"""
    code, said = told(tmp_path, capsys, test, WATCHER)
    assert (code, said.splitlines()[-1]) == (0, "1 of 1 steps as expected")
    code, said = told(tmp_path, capsys, test.replace("cpu: 20", "cpu: low"), WATCHER)
    assert code == 1
    assert "error PS805: input watcher: Expected `float`, got `str`" in said
    code, said = told(tmp_path, capsys, test.replace("watcher: {l", "watchr: {l"), WATCHER)
    assert code == 1
    assert "error PS805: no input with a url is called watchr" in said
    assert "watcher" in said.split("PS805")[1]


@pytest.mark.parametrize(
    ("line", "said_of_it"),
    [
        ("plugin: Nix", "error PS705: there is no plugin Nix that a profile enables"),
        ("metrics: {nix: 1}", "error PS805: no enabled policy has an input with a url"),
    ],
)
def test_what_a_test_names_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said_of_it: str
) -> None:
    """A test passed whose plugin was in no profile, or whose measurements nothing read."""
    code, said = told(tmp_path, capsys, f"{line}\n{SMALL}")
    assert (code, said_of_it in said) == (1, True), said


def test_check_knows_the_short_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` called an object in short form a namespace with unknown fields."""
    test = OBJECTS + "pending: [{pod: p}]\nexpect: [{pod: p, chosen: n1}]\n"
    assert told(tmp_path, capsys, test)[0] == 0
    assert run(["check", str(tmp_path / "test.yaml")]) == 0


WISHES = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Wishes}
spec:
  inputs:
  - {name: wishes, annotation: example.com/wishes, fields: {zones: list(string), tier.level: int}}
  - {name: facts, annotation: example.com/facts, schema: quota.json}
  filter:
  - expression: inputs.wishes[?pod].optMap(w, node.labels["zone"] in w.zones).orValue(true)
    onError: Reject
  - expression: inputs.facts[?node].optMap(f, f.spec.max["cpu"] >= pod.requests["cpu"]).orValue(true)
  score:
    expression: |-
      inputs.wishes[?pod].optMap(w, clamp(w.tier.level, 0, 9)).orValue(0) * 10 + (
        node.pods.exists(p, inputs.wishes[?p].optMap(w, w.tier.level > 5).orValue(false)) ? 1 : 0
      )
  preemption:
    victim: inputs.wishes[?victim].optMap(w, w.tier.level < 5).orValue(false)
"""  # noqa: E501 - an input on a line


SMALL = """\
objects: [{node: n, cpu: 1}]
pending: [{pod: p, cpu: 1}]
expect: [{pod: p, chosen: n}]
"""


def test_json_in_annotations_is_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule could read the text of an annotation, but not what it says."""
    code, said = told(
        tmp_path,
        capsys,
        """\
plugin: Wishes
objects:
- {node: a, cpu: 40, labels: {zone: a}, annotations: {example.com/facts: '{"spec": {"max": {"cpu": "500m"}}}'}}
- {node: b, cpu: 40, labels: {zone: b}, annotations: {example.com/facts: '{"spec": {"max": 1}}'}}
- {node: c, cpu: 40, labels: {zone: c}}
- {pod: runs, node: c, cpu: 1, annotations: {example.com/wishes: '{"tier": {"level": 6}}'}}
pending:
- {pod: small, cpu: 200m, annotations: {example.com/wishes: '{"zones": ["a", "c"], "tier": {"level": 7}}'}}
- {pod: large, cpu: 2, annotations: {example.com/wishes: '{"zones": ["a", "c"], "tier": null}'}}
- {pod: broken, cpu: 2, annotations: {example.com/wishes: '{"zones"'}}
- {pod: other, cpu: 2, annotations: {example.com/wishes: '{"zones": "a"}'}}
- {pod: none, cpu: 2}
expect:
- {pod: small, feasible: [a, c], raw: {a: 70, c: 71}}
- {pod: large, feasible: [c], raw: {c: 1}}
- {pod: broken, feasible: [b, c], raw: {b: 0, c: 1}}
- {pod: other, feasible: [b, c]}
- {pod: none, feasible: [b, c]}
""",  # noqa: E501 - a pod on a line
        WISHES,
    )
    assert (code, said.splitlines()[-1]) == (0, "5 of 5 steps as expected"), said


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("[?pod]", "[?pod.name]", "PS201: inputs.wishes is looked up by what has the annotation"),
        ("w.zones", "w.zone", "PS802: inputs.wishes has no field 'zone'; did you mean 'zones'?"),
        (", fields: {zones: list(string), tier.level: int}", "", "fields: Required value"),
        ("fields: {", "kind: Pod, fields: {", "kind: Forbidden: the input is an annotation"),
        ("list(string)", "lst(string)", "PS803: type of `zones`: no type is called 'lst'"),
    ],
)
def test_mistakes_about_annotations(
    before: str, after: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each one is told where it stands, with its fix."""
    code, said = told(tmp_path, capsys, SMALL, WISHES.replace(before, after, 1))
    assert (code, problem in said) == (1, True), said


def test_the_replicas_of_a_pods_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a pod a rule could get to its ReplicaSet, but not to the Deployment that has it."""
    for name, text in files(blocks(page("docs/inputs.md")), "replicas").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert run(["check", "--strict", str(tmp_path)]) == 0
    assert run(["test", str(tmp_path)]) == 0
    assert "4 of 4 steps as expected" in capsys.readouterr().out
