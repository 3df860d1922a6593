"""Objects of tests are admitted as the files of all other verbs are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicyError
from policy_sched.model import Pod, ResourceClaim
from policy_sched.policytest.scenario import Scenario, load_scenarios

CLUSTER = """\
{apiVersion: v1, kind: Node, metadata: {name: large, labels: {tier: gold}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: "1", memory: 8Gi, pods: "9"}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: vm, scheduling: {nodeSelector: {tier: gold}}}
---
apiVersion: v1
kind: Pod
metadata: {name: old}
spec:
  nodeName: large
  containers: [{name: c, resources: {limits: {cpu: "3"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priorityClassName: high
  runtimeClassName: vm
  containers: [{name: c, resources: {limits: {cpu: "2"}}}]
"""  # noqa: E501 - a document on each line


def as_test(manifests: str, expect: str) -> str:
    """Return manifests as a test in which the last one waits."""
    *objects, pending = manifests.split("---\n")

    def items(documents: list[str]) -> str:
        return "".join(
            "- " + document.rstrip().replace("\n", "\n  ") + "\n" for document in documents
        )

    return (
        "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: x\n"
        f"objects:\n{items(objects)}pending:\n{items([pending])}expect: {expect}\n"
    )


def scenario(folder: Path, text: str) -> Scenario:
    """Return the only scenario of a text."""
    file = folder / "tests.yaml"
    file.write_text(text, encoding="utf-8")
    (read,) = load_scenarios(str(file))
    return read


def test_an_object_without_kind_is_an_error(tmp_path: Path) -> None:
    """It ended `test` with a traceback."""
    text = as_test("apiVersion: v1\nmetadata: {name: n}\n---\nkind: Pod\n", "[]")
    with pytest.raises(PolicyError, match="this is no object"):
        scenario(tmp_path, text)


def test_all_verbs_admit_what_they_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test of a pod with limits and a class was green where simulate evicted for the pod.

    Without requests it fitted on every node, and its priority was 0.
    """
    file = tmp_path / "all.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    cluster, _, pod = CLUSTER.rpartition("---\n")
    (tmp_path / "pod.yaml").write_text(pod, encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(cluster, encoding="utf-8")
    assert run(["simulate", str(file), "-o", "json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert simulated["summary"]["preemptions"][0]["victims"] == ["default/old"]
    assert run(["explain", "web", "--cluster", str(file), "-o", "json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["message"] == simulated["placements"][0]["message"]
    (pod_file, others) = (str(tmp_path / name) for name in ("pod.yaml", "cluster.yaml"))
    assert run(["fit", pod_file, "--cluster", others, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["replicas"] == 0
    tests = tmp_path / "tests.yaml"
    tests.write_text(as_test(CLUSTER, "[{pod: web, nominated: large, victims: [old]}]"))
    assert run(["test", str(tests)]) == 0
    assert "1 of 1 steps as expected" in capsys.readouterr().out


def test_pods_are_completed(tmp_path: Path) -> None:
    """Requests, priority and the runtime class's node selector, of running pods too."""
    read = scenario(tmp_path, as_test(CLUSTER, "[{pod: web, chosen: null}]"))
    (web,) = read.pending
    (old,) = (one for one in read.objects if isinstance(one, Pod))
    assert web.spec.priority == 1000
    assert web.spec.node_selector == {"tier": "gold"}
    assert [one.spec.containers[0].resources.requests for one in (web, old)] == [
        {"cpu": "2"},
        {"cpu": "3"},
    ]


def test_a_class_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """`test` took a misspelt PriorityClass for priority 0; simulate refused the same manifest."""
    text = as_test(CLUSTER.replace("priorityClassName: high", "priorityClassName: hihg"), "[]")
    with pytest.raises(PolicyError) as raised:
        scenario(tmp_path, text)
    (problem,) = raised.value.diagnostics
    assert (problem.line, problem.column, problem.code) == (20, 24, "PS705")
    assert problem.message == "there is no PriorityClass 'hihg'"
    assert problem.hint == "did you mean 'high'?"


def test_short_forms_name_classes_where_they_stand(tmp_path: Path) -> None:
    """The place is that of the spec that a short form has."""
    text = "{name: x, pending: [{pod: a, spec: {priorityClassName: nope}}], expect: []}\n"
    with pytest.raises(PolicyError) as raised:
        scenario(tmp_path, text)
    (problem,) = raised.value.diagnostics
    assert (problem.column, problem.message) == (
        text.index("nope") + 1,
        "there is no PriorityClass 'nope'",
    )


def test_claims_of_templates_are_made(tmp_path: Path) -> None:
    """A pod with a template waited for ever in `test`, and was placed in `simulate`."""
    template = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]}
"""
    read = scenario(tmp_path, as_test(template, "[{pod: web, chosen: null}]"))
    (claim,) = (one for one in read.objects if isinstance(one, ResourceClaim))
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (claim.metadata.name, exactly.count) == ("web-gpu-00000", 1)
    (web,) = read.pending
    assert web.status.resource_claim_statuses[0].resource_claim_name == "web-gpu-00000"


def test_records_stay_as_they_are(tmp_path: Path) -> None:
    """What kube-scheduler saw is not admitted once more."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "priorityClassName": "unknown",
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
        },
    }
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"name": "x", "pending": [pod], "expect": [{"pod": "a"}]}))
    (read,) = load_scenarios(str(file))
    assert read.pending[0].spec.containers[0].resources.requests == {}
    assert read.pending[0].spec.priority is None


WRONG = """\
kind: PolicyTest
name: whole manifests
objects:
- {node: n1}
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: gpu}
  spec: {selectors: [{cel: {expression: 'device.drivr == "g"'}}]}
- {apiVersion: v1, kind: LimitRange, metadata: {name: l}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatabel: {cpu: 4}}}
pending: [{pod: p, claims: [{claim: x, selector: device.nix == 1}]}]
expect: [{pod: p, chosen: null}]
"""


def test_whole_manifests_are_what_kubectl_would_apply(tmp_path: Path) -> None:
    """A misspelt field, a kind that is not applied and a wrong selector were passed over."""
    (tmp_path / "tests.yaml").write_text(WRONG, encoding="utf-8")
    requests = "pods have the requests and limits that they state"
    with pytest.raises(PolicyError) as refused:
        load_scenarios(str(tmp_path / "tests.yaml"))
    assert [f"{d.line}:{d.column} {d.code} {d.message}" for d in refused.value.diagnostics] == [
        "8:41 PS102 Device has no field 'drivr'; did you mean 'driver'?",
        f"9:20 PS719 the LimitRange is not applied: {requests}",
        "10:63 PS702 unknown field 'status.allocatabel', which is not read",
        "11:11 PS102 Device has no field 'nix'",
    ]
