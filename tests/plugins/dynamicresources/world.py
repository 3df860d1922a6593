"""Builds clusters with devices, and decides pods in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from policy_sched import model
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup import assemble, read
from policy_sched.testing import make_node

DRIVER = "gpu.example.com"
Plain = dict[str, Any]


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> model.DeviceClass:
    """Return a class of devices."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return _decoded("DeviceClass", {"name": name}, {"selectors": selectors, **spec})


def resource_slice(node: str, devices: Sequence[Plain | str], **spec: Any) -> model.ResourceSlice:
    """Return the slice of a node, which is its whole pool; a name is a plain device."""
    made = [{"name": one} if isinstance(one, str) else one for one in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    where = {"nodeName": node} if not {"allNodes", "nodeSelector"} & spec.keys() else {}
    body = {"driver": DRIVER, "pool": pool, "devices": made, **where, **spec}
    return _decoded("ResourceSlice", {"name": f"{node}-slice"}, body)


def resource_claim(name: str, *requests: Plain, **devices: Any) -> model.ResourceClaim:
    """Return a claim; without requests it wants one device of class gpu."""
    asked = requests or (exactly("r"),)
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return _decoded("ResourceClaim", meta, {"devices": {"requests": list(asked), **devices}})


def exactly(name: str, count: int = 1, **more: Any) -> Plain:
    """Return a request for so many devices."""
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**asked, **more}}


def _decoded(kind: str, metadata: Plain, spec: Plain) -> Any:
    key = ("resource.k8s.io/v1", kind)
    plain = {"apiVersion": key[0], "kind": kind, "metadata": metadata, "spec": spec}
    found: model.ApiObject = msgspec.convert(plain, model.KINDS[key])
    return found


def pod_with(name: str, *claims: str, requests: Plain | None = None, **spec: Any) -> model.PodInfo:
    """Return a pending pod that uses claims."""
    entries = [{"name": f"c{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    container = {"name": "c", "resources": {"requests": requests or {}}}
    body = {"containers": [container], "resourceClaims": entries, **spec}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return model.PodInfo.of(msgspec.convert({"metadata": meta, "spec": body}, model.Pod))


def scheduler_with(
    nodes: Iterable[str], objects: Sequence[model.ApiObject], **more: Any
) -> Scheduler:
    """Return a scheduler of the default profile whose cluster has nodes and objects."""
    plans, _ = read(None, ())
    scheduler = assemble(plans, objects=objects, **more)
    for name in nodes:
        scheduler.cache.add_node(make_node(name, cpu="8"))
    return scheduler


def schedule(scheduler: Scheduler, *pods: model.PodInfo) -> list[str]:
    """Add pods, decide them in their order, and return their nodes; "" for none."""
    found = []
    for pod in pods:
        scheduler.add_pod(pod)
        outcome = scheduler.schedule_one()
        found.append("" if outcome is None else outcome.node or "")
    return found


def claim_of(scheduler: Scheduler, name: str) -> model.ResourceClaim:
    """Return a claim as the cluster has it."""
    claim = scheduler.handle.objects.named(model.ResourceClaim, "default", name)
    assert claim is not None, "it is there"
    return claim


def devices_of(scheduler: Scheduler, name: str) -> list[str]:
    """Return the devices of a claim, as pool/device."""
    allocation = claim_of(scheduler, name).status.allocation
    results = () if allocation is None else allocation.devices.results
    return [f"{one.pool}/{one.device}" for one in results]
