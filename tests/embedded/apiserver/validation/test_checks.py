"""Objects that are refused: each field with its reason and words, all of them at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.client.apimachinery.object import seal
from policy_sched.client.apimachinery.resources import ApiError, resource
from policy_sched.embedded.apiserver.validation.checks import check_change, check_new
from policy_sched.model.kinds import Kind
from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.world import PODS, pod, serving

Plain = dict[str, Any]
KINDS: dict[str, Kind] = {
    "Pod": ("v1", "Pod"), "Deployment": ("apps/v1", "Deployment"),
    "StatefulSet": ("apps/v1", "StatefulSet"), "Job": ("batch/v1", "Job"),
    "Node": ("v1", "Node"), "Service": ("v1", "Service"),
    "PodDisruptionBudget": ("policy/v1", "PodDisruptionBudget"),
    "Namespace": ("v1", "Namespace"), "ConfigMap": ("v1", "ConfigMap"), "Secret": ("v1", "Secret"),
    "PriorityClass": ("scheduling.k8s.io/v1", "PriorityClass"),
    "PersistentVolume": ("v1", "PersistentVolume"),
    "PersistentVolumeClaim": ("v1", "PersistentVolumeClaim"),
    "StorageClass": ("storage.k8s.io/v1", "StorageClass"),
    "Lease": ("coordination.k8s.io/v1", "Lease"),
    "ReplicationController": ("v1", "ReplicationController"),
    **{
        kind: ("resource.k8s.io/v1", kind)
        for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
    },
    **{kind: ("scheduling.k8s.io/v1alpha2", kind) for kind in ("PodGroup", "Workload")},
}  # fmt: skip


def made(kind: str, data: Plain) -> Plain:
    """Return an object of a kind, called x unless it says otherwise."""
    version, name = KINDS[kind]
    meta = {"name": "x", **data.get("metadata", {})}
    return {"apiVersion": version, "kind": name, **data, "metadata": meta}


def told(kind: str, data: Plain) -> list[str]:
    """Return what is said about an object that is to be created."""
    try:
        check_new(resource(KINDS[kind]), made(kind, data))
    except ApiError as error:
        return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]
    return []


def container(**fields: Any) -> Plain:
    """Return the specification of a pod with one container."""
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def template(**spec: Any) -> Plain:
    """Return a template of pods that are labelled a=b."""
    return {"metadata": {"labels": {"a": "b"}}, "spec": {**container(), **spec}}


SELECTOR = {"matchLabels": {"a": "b"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EXISTS = [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]
REFUSED = yaml.load(
    Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("case", REFUSED["pods"])
def test_pods_are_refused_for_everything_that_is_wrong(case: Plain) -> None:
    """Of a template in a workload it is the same."""
    spec, words = case["pod"], case["refused"]
    assert told("Pod", {"spec": spec}) == words
    inner = {**template(), "spec": spec}
    messages = told("Deployment", {"spec": {"selector": SELECTOR, "template": inner}})
    wanted = [word.replace("spec.", "spec.template.spec.", 1) for word in words]
    assert messages[: len(wanted)] == wanted
    assert all(word.endswith('supported values: "Always"') for word in messages[len(wanted) :])


def test_a_pod_with_everything_is_right() -> None:
    """Volumes without a source are empty directories; limits alone are requests, too."""
    spec = container(
        resources={"limits": {"cpu": "1", "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        ports=[{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "name": "http"}],
    )
    spec |= {
        "volumes": [{"name": "v"}],
        "tolerations": [{"operator": "Exists"}, {"key": "a/b", "value": "v"}],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": EXISTS}}},
        "schedulingGates": [{"name": "example.com/g"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    meta = {"labels": {"a": ""}, "annotations": {"Example.com/X": "y"}, "finalizers": ["a/b"]}
    assert told("Pod", {"metadata": meta, "spec": spec}) == []


@pytest.mark.parametrize("case", REFUSED["others"])
def test_other_kinds_are_refused_as_well(case: Plain) -> None:
    """Each in its words."""
    assert told(case["kind"], case["object"]) == case["refused"]


def test_metadata_are_checked_of_every_kind() -> None:
    """Labels, annotations, owners, finalizers, and names by their kind."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}
    meta = {"name": "A", "labels": {"b c": "-"}, "ownerReferences": [owner]}
    fields = [message.partition(":")[0] for message in told("ConfigMap", {"metadata": meta})]
    labels = ["metadata.labels"] * 2
    assert fields == ["metadata.name", *labels, "metadata.ownerReferences[0].uid"]
    assert "RFC 1123 label" in told("Namespace", {"metadata": {"name": "A"}})[0]
    assert "must not contain dots" in told("Namespace", {"metadata": {"name": "a.b"}})[0]
    assert "DNS-1035" in told("Service", {"metadata": {"name": "1"}, "spec": {"ports": [
        {"port": 1}]}})[0]  # fmt: skip
    long = {"annotations": {"a": "x" * 300_000}}
    assert told("ConfigMap", {"metadata": long}) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


@pytest.mark.parametrize("case", REFUSED["changes"])
def test_immutable_fields_cannot_change(case: Plain) -> None:
    """But a status may be written whatever else there is."""
    kind, new, words = case["kind"], case["new"], case["refused"]
    stored = seal(resource(KINDS[kind]), made(kind, case["old"]), 1)
    with pytest.raises(ApiError) as refused:
        check_change(stored, made(kind, new), "")
    items = [f"{cause['field']}: {cause['message']}" for cause in refused.value.details["causes"]]
    assert len(items) == len(words)
    assert all(cause.startswith(start) for cause, start in zip(items, words, strict=True))
    check_change(stored, made(kind, new), "status")


def test_all_causes_are_reported_at_once() -> None:
    """A Status with a cause for each field; nothing is stored, also not by server-side apply."""

    async def run() -> None:
        async with serving() as world:
            data = pod("Bad_Name")
            data["spec"] = {"containers": [{"name": "c"}]}
            status, body = await world.ask("POST", PODS, data)
            assert (status, body["reason"]) == (422, "Invalid")
            assert body["message"].startswith('Pod "Bad_Name" is invalid: [metadata.name: Invalid')
            assert body["message"].endswith(", spec.containers[0].image: Required value]")
            assert body["details"]["causes"][1] == {
                "reason": "FieldValueRequired",
                "message": "Required value",
                "field": "spec.containers[0].image",
            }
            path = "/apis/apps/v1/namespaces/default/deployments"
            made = await world.create(path, deployment("d"))
            del made["metadata"]["resourceVersion"]
            made["spec"]["replicas"] = -1
            status, body = await world.ask("PUT", f"{path}/d", made)
            assert (status, body["details"]["group"]) == (422, "apps")
            made["metadata"]["resourceVersion"] = "1"
            assert (await world.ask("PUT", f"{path}/d", made))[0] == 409
            given = {**deployment("e"), "spec": {"replicas": 1}}
            apply = f"{path}/e?fieldManager=m"
            kind = "application/apply-patch+yaml"
            assert (await world.ask("PATCH", apply, given, type=kind))[0] == 422

    asyncio.run(run())


def test_a_selector_has_at_most_ten_kibibytes() -> None:
    """As kube-apiserver has it; a longer one is not compiled."""
    spec = {"selectors": [{"cel": {"expression": f"'{'x' * 10240}' == ''"}}]}
    messages = told("DeviceClass", {"spec": spec})
    where = "spec.selectors[0].cel.expression"
    assert messages == [f"{where}: Too long: may not be more than 10240 bytes"]
