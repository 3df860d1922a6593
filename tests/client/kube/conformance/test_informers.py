"""Everything that the default profile reads, read by its informers in the whole cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery import resources
from policy_sched.client.kube.cache.informers import Informers
from policy_sched.client.kube.cache.reflector import ReflectorSettings
from policy_sched.client.kube.cache.store import Change
from policy_sched.model.kinds import Kind
from tests.client.kube.conformance.ground import Ground, Plain, played, until

SERVICE: Kind = ("v1", "Service")
DRIVER: Kind = ("storage.k8s.io/v1", "CSIDriver")
CSI_NODE: Kind = ("storage.k8s.io/v1", "CSINode")
CAPACITY: Kind = ("storage.k8s.io/v1", "CSIStorageCapacity")
ATTACHMENT: Kind = ("storage.k8s.io/v1", "VolumeAttachment")
MATCH = {"matchLabels": {"policy-sched.example.com/none": "x"}}
DEVICE_CLAIM: Kind = ("resource.k8s.io/v1", "ResourceClaim")
DEVICE_CLASS: Kind = ("resource.k8s.io/v1", "DeviceClass")
SLICE: Kind = ("resource.k8s.io/v1", "ResourceSlice")
TEMPLATE: Plain = {
    "metadata": {"labels": MATCH["matchLabels"]},
    "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
}


async def _populate(ground: Ground) -> dict[Kind, str]:
    """Make one object of each kind that may be made, none of which is run; name them."""
    name = ground.namespace
    none = {"replicas": 0, "selector": MATCH, "template": TEMPLATE}
    storage = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    size = {"storage": "1Gi"}
    driver = f"{name}.example.com"
    inside: dict[Kind, Plain] = {
        resources.POD: {"spec": {"schedulerName": name, **TEMPLATE["spec"]}},
        SERVICE: {"spec": {"clusterIP": "None", "selector": MATCH["matchLabels"]}},
        ("v1", "ReplicationController"): {
            "spec": {**none, "selector": MATCH["matchLabels"]},
        },
        ("apps/v1", "ReplicaSet"): {"spec": none},
        ("apps/v1", "StatefulSet"): {"spec": {**none, "serviceName": name}},
        resources.BUDGET: {"spec": {"minAvailable": 1, "selector": MATCH}},
        resources.CLAIM: {"spec": {**storage, "resources": {"requests": size}}},
        DEVICE_CLAIM: {
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}}
        },
        CAPACITY: {"storageClassName": name, "capacity": "1Gi", "nodeTopology": MATCH},
    }
    alone: dict[Kind, Plain] = {
        resources.VOLUME: {"spec": {**storage, "hostPath": {"path": "/none"}, "capacity": size}},
        resources.STORAGE_CLASS: {
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        DRIVER: {"spec": {"attachRequired": False, "storageCapacity": True}},
        CSI_NODE: {
            "spec": {"drivers": [{"name": driver, "nodeID": "n", "allocatable": {"count": 3}}]}
        },
        ATTACHMENT: {
            "spec": {
                "attacher": driver,
                "nodeName": ground.nodes[0],
                "source": {"persistentVolumeName": name},
            }
        },
        DEVICE_CLASS: {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'none'"}}]}},
        SLICE: {
            "spec": {
                "driver": driver,
                "nodeName": ground.nodes[0],
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d0", "attributes": {"numa": {"int": 1}}}],
            }
        },
    }
    for kind, body in alone.items():
        await ground.make(kind, driver if kind == DRIVER else name, body, alone=True)
    for kind, body in inside.items():
        await ground.make(kind, name, body)
    return {**dict.fromkeys((*alone, *inside), name), DRIVER: driver, ("v1", "Namespace"): name}


def _find(informers: Informers, kind: Kind, name: str) -> Any:
    named = [one for one in informers.objects(kind) if one.metadata.name == name]
    return named[0] if named else None


@pytest.mark.parametrize("streaming", [True, False])
def test_all_that_a_scheduler_reads_is_read(server: str, *, streaming: bool) -> None:
    """Each kind that is served, of any origin; nothing is odd, nothing is missing."""

    async def play(ground: Ground) -> None:
        made = await _populate(ground)
        trouble: list[tuple[Kind, str]] = []
        informers = Informers(
            ground.api,
            settings=ReflectorSettings(streaming=streaming),
            trouble=lambda selection, what: trouble.append((selection.kind, what)),
        )
        running = asyncio.create_task(informers.run())
        await until(lambda: _synced(informers))
        told: list[Change[Any]] = []
        informers.drain(told.append, 2**31)
        running.cancel()
        missing = {kind for kind, _ in trouble}
        assert not missing, trouble
        for kind, name in made.items():
            assert _find(informers, kind, name) is not None, kind
        kinds = [change.object.kind for change in told]
        before = set(kinds[: kinds.index("Pod")])
        assert before >= {kind for _, kind in made} - {"Pod"}, "a pod comes after all others"

    played(server, play)


async def _synced(informers: Informers) -> bool:
    return informers.synced


def test_informers_read_what_was_written(server: str) -> None:
    """The fields that decisions are made of, after the server's defaults."""

    async def play(ground: Ground) -> None:
        made = await _populate(ground)
        informers = Informers(ground.api)
        running = asyncio.create_task(informers.run())
        await until(lambda: _synced(informers))
        running.cancel()
        found = {kind[1]: _find(informers, kind, name) for kind, name in made.items()}
        assert found["StorageClass"].volume_binding_mode == "WaitForFirstConsumer"
        assert found["PersistentVolume"].spec.storage_class_name == ground.namespace
        assert found["PersistentVolumeClaim"].spec.storage_class_name == ground.namespace
        (driver,) = found["CSINode"].spec.drivers
        assert driver.allocatable.count == 3
        assert found["CSIDriver"].spec.storage_capacity
        (device,) = found["ResourceSlice"].spec.devices
        assert device.attributes["numa"].int_value == 1
        (selector,) = found["DeviceClass"].spec.selectors
        assert selector.cel.expression == "device.driver == 'none'"
        (request,) = found["ResourceClaim"].spec.devices.requests
        assert (request.exactly.allocation_mode, request.exactly.count) == ("ExactCount", 1)
        assert found["VolumeAttachment"].spec.node_name == ground.nodes[0]
        assert found["Service"].spec.selector == MATCH["matchLabels"]
        assert found["PodDisruptionBudget"].spec.selector.match_labels == MATCH["matchLabels"]
        assert found["Pod"].spec.scheduler_name == ground.namespace

    played(server, play)
