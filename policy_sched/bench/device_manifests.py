"""The devices and resource claims of kube-scheduler's own benchmarks of topic dra.

A node has 8 devices of one class in one slice. Each pod comes with a claim of its own, as the claim
controller makes it of a template.
"""

from __future__ import annotations

from typing import Final

from policy_sched.bench import manifests as make
from policy_sched.bench.manifests import Manifest, node_name

DRIVER: Final = "test-driver.cdi.k8s.io"
CLASS: Final = "test-class"
DEVICES: Final = 8
"""Devices of a node; of partitionable ones, those that are whole."""
PARTS: Final = 2
"""Partitions of a partitionable device."""
_VERSION: Final = "resource.k8s.io/v1"
_CARDS: Final = DEVICES // 2
"""Of how many nodes of memory a machine's devices are: two on each."""


def device_class() -> Manifest:
    """Return the class of all devices of the driver."""
    return {
        "apiVersion": _VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": CLASS, "uid": f"class-{CLASS}"},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
    }


def node_slice(index: int, devices: list[Manifest], name: str = "", count: int = 1) -> Manifest:
    """Return a slice of a node; ``count``: how many its pool has."""
    node = node_name(index)
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}{name}", "uid": f"slice-{index}{name}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            "devices": devices,
        },
    }


def whole_devices(index: int) -> list[Manifest]:
    """Return the slices of a node: devices with an attribute that two of them have in common."""
    devices: list[Manifest] = [
        {"name": f"instance-{i}", "attributes": {"numa": {"int": i % _CARDS}}}
        for i in range(DEVICES)
    ]
    return [node_slice(index, devices)]


def shareable_devices(index: int) -> list[Manifest]:
    """Return the slices of a node: devices of which each may be given to several claims."""
    devices: list[Manifest] = [
        {
            "name": f"instance-{i}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(DEVICES)
    ]
    return [node_slice(index, devices)]


def partitionable_devices(index: int) -> list[Manifest]:
    """Return the slices of a node: counters, and devices and their partitions, which take of them.

    The whole device comes first, so that a claim of a partition has to pass over it.
    """
    sets: list[Manifest] = []
    devices: list[Manifest] = []
    for i in range(DEVICES):
        sets.append({"name": f"counters-{i}", "counters": {"memory": {"value": "80Gi"}}})
        for part, memory in [("whole", 80), *((f"part-{n}", 80 // PARTS) for n in range(PARTS))]:
            kind = "whole" if part == "whole" else "part"
            counters = {"memory": {"value": f"{memory}Gi"}}
            devices.append(
                {
                    "name": f"instance-{i}-{part}",
                    "attributes": {"kind": {"string": kind}},
                    "consumesCounters": [{"counterSet": f"counters-{i}", "counters": counters}],
                }
            )
    counting = node_slice(index, [], "-counters", count=2)
    spec = counting["spec"]
    assert isinstance(spec, dict)
    del spec["devices"]
    spec["sharedCounters"] = sets
    return [counting, node_slice(index, devices, count=2)]


def _claim(index: int, request: Manifest, **devices: object) -> Manifest:
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1, **request}
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": f"claim-{index}", "namespace": "default", "uid": f"claim-{index}"},
        "spec": {"devices": {"requests": [{"name": "req", "exactly": exactly}], **devices}},
    }


def pod(index: int) -> Manifest:
    """Return a pod with its claim."""
    entry: Manifest = {"name": "resource", "resourceClaimName": f"claim-{index}"}
    return make.pod("test-pod", index, {"resourceClaims": [entry]})


def one_device(index: int) -> Manifest:
    """Return a claim of one device."""
    return _claim(index, {})


def matching(index: int) -> Manifest:
    """Return a claim of two devices with an attribute in common."""
    return _claim(index, {"count": 2}, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])


def share(index: int) -> Manifest:
    """Return a claim of an eighth of a device."""
    return _claim(index, {"capacity": {"requests": {"memory": "10Gi"}}})


def partition(index: int) -> Manifest:
    """Return a claim of a partition."""
    expression = f"device.attributes['{DRIVER}'].kind == 'part'"
    return _claim(index, {"selectors": [{"cel": {"expression": expression}}]})
