"""The verb `explain` for pods with claims: why devices do not suffice, and what would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: big, namespace: default}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        selectors:
        - cel:
            expression: device.attributes["gpu.example.com"].model == "a100"
"""
OTHERS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: device.driver == "gpu.example.com"}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: big}]
  containers: [{name: c, image: i}]
"""
RESERVED = [{"resource": "pods", "name": "other", "uid": "other"}]
TAINT = {"key": "x.com/sick", "effect": "NoSchedule"}


def device(name: str, model: str = "a100", numa: int = 0, **more: Any) -> dict[str, Any]:
    """Return a device with a model and a NUMA node."""
    return {"name": name, "attributes": {"model": {"string": model}, "numa": {"int": numa}}, **more}


def pool(node: str, *devices: dict[str, Any]) -> dict[str, Any]:
    """Return the slice of a node."""
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**head, "metadata": {"name": f"slice-{node}"}, "spec": spec}


def node(name: str) -> dict[str, Any]:
    """Return a node with room for pods."""
    status = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def held(name: str, *devices: str, selector: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a claim that has devices, as node/device, for another pod."""
    results = [
        {"request": "gpu", "driver": "gpu.example.com", "pool": p, "device": d}
        for p, d in (item.split("/") for item in devices)
    ]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": len(devices)}}
    allocation: dict[str, Any] = {"devices": {"results": results}}
    if selector is not None:
        allocation["nodeSelector"] = selector
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": allocation, "reservedFor": RESERVED},
    }


EIGHT = pool(
    "gpu-1",
    *(device(f"gpu-{i}") for i in range(5)),
    device("gpu-5", "t4"),
    device("gpu-6", "t4"),
    device("gpu-7", taints=[TAINT]),
)


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that explains the pod on a cluster: what is printed below its filters."""
    monkeypatch.chdir(tmp_path)

    def explain(
        claim: str, *objects: dict[str, Any], others: str = OTHERS, output: str = "text"
    ) -> Any:
        Path("claim.yaml").write_text(claim, encoding="utf-8")
        Path("others.yaml").write_text(others, encoding="utf-8")
        whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        Path("cluster.json").write_text(json.dumps(whole), encoding="utf-8")
        assert run(["explain", "train", "--cluster", ".", "-o", output]) == 0
        printed = capsys.readouterr().out
        if output == "json":
            return json.loads(printed)
        if "the attempt fails" in printed:
            return printed
        assert "cannot allocate all claims" in printed or "resourceclaim not" in printed
        return printed[printed.index("would let every node pass") + 27 :]

    return explain


def test_each_device_has_its_reason(told: Any) -> None:
    """Devices are counted by what keeps them from the request; a selector has file and line."""
    taken = held("held", *(f"gpu-1/gpu-{i}" for i in range(5)))
    assert (
        told(CLAIM, EIGHT, taken, node("gpu-1"), node("cpu-1"), node("cpu-2"))
        == """\
Devices for request gpu of claim default/big (1 device of class gpu):
  gpu-1         8 devices: 5 allocated, 2 rejected by selector at claim.yaml:12, 1 tainted
  cpu-1, cpu-2  no devices

What would change that:
  with request gpu of default/big tolerating x.com/sick:NoSchedule it would fit on 1 node: gpu-1
  without the selector at claim.yaml:12 it would fit on 1 node: gpu-1
  with the allocated devices given back it would fit on 1 node: gpu-1
"""
    )


def test_the_same_as_data(told: Any) -> None:
    """A program reads counts, reasons and places."""
    messages = told(CLAIM, EIGHT, node("gpu-1"), held("held", "gpu-1/gpu-0"), output="json")
    assert messages["claims"] is None, "the pod fits"
    taken = held("held", *(f"gpu-1/gpu-{i}" for i in range(5)))
    (request,) = told(CLAIM, EIGHT, taken, node("gpu-1"), output="json")["claims"]["requests"]
    (nodes,) = request["nodes"]
    assert (request["deviceClass"], request["count"]) == ("gpu", 1)
    assert (nodes["nodes"], nodes["devices"], nodes["fit"]) == (["gpu-1"], 8, 0)
    assert [(item["why"], item["count"]) for item in nodes["refused"]] == [
        ("allocated", 5),
        ("selector", 2),
        ("tainted", 1),
    ]
    assert nodes["refused"][1]["selector"]["place"] == "claim.yaml:12"
    assert nodes["refused"][2]["taint"] == "x.com/sick:NoSchedule"


def test_explain_counts_the_devices_that_fit_and_that_are_needed(told: Any) -> None:
    """The number that fits and the number that is needed; fewer would do."""
    claim = CLAIM.replace("deviceClassName: gpu", "deviceClassName: gpu\n        count: 3")
    assert (
        told(claim, pool("gpu-1", device("a"), device("b")), node("gpu-1"))
        == """\
Devices for request gpu of claim default/big (3 devices of class gpu):
  gpu-1  2 devices: 2 fit; 3 are needed

What would change that:
  with 2 devices for request gpu of default/big it would fit on 1 node: gpu-1
"""
    )


def test_explain_names_the_constraint_that_no_devices_satisfy(told: Any) -> None:
    """Devices that suffice one by one and not together: the constraint is what keeps them out."""
    claim = CLAIM.replace("deviceClassName: gpu", "deviceClassName: gpu\n        count: 2")
    claim += "    constraints: [{matchAttribute: gpu.example.com/numa}]\n"
    devices = device("a", numa=0), device("b", numa=1)
    assert (
        told(claim, pool("gpu-1", *devices), node("gpu-1"))
        == """\
Devices for request gpu of claim default/big (2 devices of class gpu):
  gpu-1  2 devices: 2 fit; enough for this request alone

What would change that:
  with 1 device for request gpu of default/big it would fit on 1 node: gpu-1
  without the constraint gpu.example.com/numa of default/big it would fit on 1 node: gpu-1
"""
    )


def test_a_selector_of_the_class(told: Any) -> None:
    """A device of another driver is rejected by the class, which stands in another file."""
    other = pool("gpu-1", device("a"))
    other["spec"]["driver"] = "other.example.com"
    lines = told(CLAIM, other, node("gpu-1")).splitlines()
    assert lines[1] == "  gpu-1  1 device: 1 rejected by selector at others.yaml:6"


def test_a_claim_that_is_allocated_elsewhere(told: Any) -> None:
    """A claim of other pods binds the pod to the nodes that reach its devices."""
    match = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
    taken = held("big", "gpu-1/gpu-0", selector={"nodeSelectorTerms": [{"matchFields": [match]}]})
    full = node("gpu-1")
    full["spec"] = {"unschedulable": True}
    messages = told("", EIGHT, taken, full, node("cpu-1"))
    assert messages.startswith(
        "Claim default/big is allocated (gpu.example.com/gpu-1/gpu-0): gpu-1 can use it\n"
    )


def test_alternatives_of_a_request(told: Any) -> None:
    """Each alternative of firstAvailable has its devices, and selectors their own lines."""
    claim = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: big, namespace: default}
spec:
  devices:
    requests:
    - name: gpu
      firstAvailable:
      - {name: two, deviceClassName: gpu, count: 2}
      - name: one
        deviceClassName: gpu
        selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].numa == 7'}}]
"""
    lines = told(claim, pool("gpu-1", device("a")), node("gpu-1")).splitlines()
    assert lines[:4] == [
        "Devices for request gpu/two of claim default/big (2 devices of class gpu):",
        "  gpu-1  1 device: 1 fits; 2 are needed",
        "Devices for request gpu/one of claim default/big (1 device of class gpu):",
        "  gpu-1  1 device: 1 rejected by selector at claim.yaml:12",
    ]


def test_a_selector_that_fails(told: Any) -> None:
    """An attribute that a device lacks ends the attempt; the selector and its place are named."""
    plain = pool("gpu-1", {"name": "gpu-0"}, device("gpu-1"))
    messages = told(CLAIM, plain, node("gpu-1"))
    assert "claim default/big: selector #0: CEL runtime error: no such key: model" in messages
    assert (
        messages[messages.index("Devices") :]
        == """\
Devices for request gpu of claim default/big (1 device of class gpu):
  gpu-1  2 devices: 1 failed in selector at claim.yaml:12 (no such key: model), 1 fits

What would change that:
  without the selector at claim.yaml:12 it would fit on 1 node: gpu-1
"""
    )


def _pod_with(resource: str, amount: int) -> str:
    """Return a class that serves an extended resource, and a pod that requests it."""
    served = OTHERS.replace(
        "spec:\n  selectors", f"spec:\n  extendedResourceName: {resource}\n  selectors"
    )
    limits = f"resources: {{limits: {{{resource}: {amount}}}, requests: {{{resource}: {amount}}}}}"
    named = "  resourceClaims: [{name: gpu, resourceClaimName: big}]\n"
    return served.replace(named, "").replace("image: i}", f"image: i, {limits}}}")


def test_an_extended_resource_that_a_class_serves(told: Any) -> None:
    """The devices behind an extended resource are counted for the container that requests it."""
    taken = held("held", "gpu-1/gpu-0", "gpu-1/gpu-1", "gpu-1/gpu-2")
    plugin = node("plugin")
    plugin["status"]["allocatable"]["example.com/gpu"] = "1"
    devices = [device(f"gpu-{i}") for i in range(4)]
    slices = pool("gpu-1", *devices, device("gpu-4", taints=[TAINT]))
    cluster = slices, taken, node("gpu-1"), node("cpu-1"), plugin
    assert (
        told("", *cluster, others=_pod_with("example.com/gpu", 3))
        == """\
Devices for example.com/gpu in container c (3 devices of class gpu):
  gpu-1  5 devices: 3 allocated, 1 tainted, 1 fits; 3 are needed
  cpu-1  no devices

What would change that:
  with 1 of example.com/gpu in container c it would fit on 1 node: gpu-1
  with the allocated devices given back it would fit on 1 node: gpu-1
  without NodeResourcesFit it would fit on 1 node: plugin
  with 2 less example.com/gpu it would fit on 1 node: plugin
"""
    )
