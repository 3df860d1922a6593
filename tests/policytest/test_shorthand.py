"""Short forms of nodes, pods and namespaces."""

from __future__ import annotations

import pytest

from policy_sched.errors import Diagnostic
from policy_sched.policytest.shorthand import expand, full_name
from policy_sched.policytest.yaml_reader import Path, Plain, Reader


def nowhere(path: Path, key: bool) -> Diagnostic:
    """Locate everything at the top of a file, and keep the path as the context."""
    return Diagnostic("tests.yaml", 1, 1, "", "", context=f"{path} {key}")


def expanded(value: object) -> Plain:
    """Return the manifest of a form that has no mistakes."""
    reader = Reader(nowhere)
    manifest = expand(reader, value, ())
    assert reader.problems == []
    return manifest


def messages(value: object) -> list[str]:
    """Return what is said about a form that has mistakes."""
    reader = Reader(nowhere)
    expand(reader, value, ())
    return [problem.message for problem in reader.problems]


def test_a_node_has_defaults_and_the_labels_of_a_node() -> None:
    """A name is enough: size, hostname label and readiness are those of any node."""
    node = expanded({"node": "n1"})
    assert node["kind"] == "Node"
    assert node["metadata"] == {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert node["status"] == {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True"}],
    }


def test_a_node_says_what_is_special_about_it() -> None:
    """Sizes, extended resources, taints, images and spec come through."""
    node = expanded(
        {
            "node": "n1",
            "cpu": 8,
            "resources": {"nvidia.com/gpu": 4},
            "taints": ["dedicated=gpu:NoSchedule", "spot:PreferNoSchedule"],
            "images": {"nginx": 1000},
            "unschedulable": True,
            "spec": {"providerID": "x"},
        }
    )
    assert node["spec"] == {
        "unschedulable": True,
        "taints": [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"key": "spot", "value": "", "effect": "PreferNoSchedule"},
        ],
        "providerID": "x",
    }
    status = node["status"]
    assert isinstance(status, dict)
    assert status["allocatable"]["nvidia.com/gpu"] == "4"
    assert status["allocatable"]["cpu"] == "8"
    assert status["images"] == [{"names": ["nginx"], "sizeBytes": 1000}]


def test_a_bare_name_is_a_pod_without_requests() -> None:
    """The shortest pod is its name, in the namespace default."""
    pod = expanded("plain")
    assert pod["kind"] == "Pod"
    assert pod["metadata"] == {"name": "plain", "namespace": "default", "uid": "default/plain"}


def test_a_pod_says_what_it_wants() -> None:
    """Requests, tolerations, ports, gates and owner become what Kubernetes calls them."""
    pod = expanded(
        {
            "pod": "team/p",
            "node": "n1",
            "cpu": 2,
            "requests": {"nvidia.com/gpu": 1},
            "tolerations": ["a=b:NoSchedule", "c:NoExecute", "d", "e=f", {"operator": "Exists"}],
            "hostPorts": [80, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}],
            "gates": ["hold"],
            "owner": "rs-1",
        }
    )
    spec = pod["spec"]
    assert isinstance(spec, dict)
    assert spec["nodeName"] == "n1"
    assert spec["tolerations"] == [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists", "effect": "NoExecute"},
        {"key": "d", "operator": "Exists"},
        {"key": "e", "operator": "Equal", "value": "f"},
        {"operator": "Exists"},
    ]
    assert spec["schedulingGates"] == [{"name": "hold"}]
    container = spec["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
    assert [port["hostPort"] for port in container["ports"]] == [80, 53]


def test_a_manifest_is_taken_as_it_is() -> None:
    """Whatever has a kind is no short form."""
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "anything": 1}
    assert expanded(manifest) == manifest


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"node": "n", "memroy": "1Gi"}, 'unknown key "memroy"'),
        ({"pod": "p", "tolerations": ["a=b:Noschedule"]}, 'effect "Noschedule" must be'),
        ({"node": "n", "taints": ["a"]}, 'effect "a" must be NoSchedule, PreferNoSchedule or'),
        ({"cpu": 1}, "this is no object"),
        ({"pod": "p", "hostPorts": ["http"]}, "this must be a whole number, not text"),
        (7, "this must be a mapping, not a number"),
    ],
)
def test_mistakes_are_named(value: object, message: str) -> None:
    """A slip is reported with what stands there and what may stand there."""
    (said,) = messages(value)
    assert said.startswith(message)


def test_a_bare_name_is_in_the_default_namespace() -> None:
    """As kubectl does."""
    assert full_name("a") == "default/a"
    assert full_name("b/a") == "b/a"
