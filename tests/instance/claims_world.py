"""Devices, claims and pods that use them, on a served cluster with schedulers as its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from policy_sched.client.apimachinery import DEVICE_CLAIM, POD
from policy_sched.embedded.store import MERGE, DeleteOptions, Key
from tests.instance.app.test_cluster_instance import World, node, pod

Plain = dict[str, Any]
VERSION: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


def device_class(name: str = "gpu", **spec: Any) -> Plain:
    """Return a class."""
    return {"apiVersion": VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(pool: str, *devices: str, **where: Any) -> Plain:
    """Return the slice that is a whole pool; it is on the node of the pool's name."""
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, "attributes": {"model": {"string": "a"}}} for name in devices],
        **(where or {"nodeName": pool}),
    }
    meta = {"name": f"{pool}-slice"}
    return {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": meta, "spec": spec}


def request(device_class_name: str = "gpu", **more: Any) -> Plain:
    """Return the request of a claim that wants one device."""
    return {"name": "r", "exactly": {"deviceClassName": device_class_name, **more}}


def claim(name: str, *requests: Plain, **devices: Any) -> Plain:
    """Return a claim; without requests it wants one device."""
    spec = {"devices": {"requests": list(requests or (request(),)), **devices}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def template(name: str, *requests: Plain, **devices: Any) -> Plain:
    """Return a template of such claims."""
    made = claim(name, *requests, **devices)
    kind = "ResourceClaimTemplate"
    return {**made, "kind": kind, "spec": {"spec": made["spec"]}}


def pod_with(name: str, **source: str) -> Plain:
    """Return a pod with one claim: resourceClaimName=... or resourceClaimTemplateName=..."""
    found = pod(name, resourceClaims=[{"name": "gpu", **source}])
    found["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return found


def two_nodes(*devices: str) -> tuple[Plain, ...]:
    """Return nodes a and b with such devices each, and the class of the devices."""
    slices = (resource_slice(one, *devices) for one in ("a", "b"))
    return (node("a"), node("b"), device_class(), *slices)


class Claims:
    """What the API has of claims and pods."""

    def __init__(self, world: World) -> None:
        self._store = world.cluster.store

    def of(self, name: str) -> Plain:
        """Return a claim by its name, or by the name of the pod that it was made for."""
        for stored in self._store.select(DEVICE_CLAIM):
            owners = stored.typed.metadata.owner_references
            if stored.name == name or any(owner.name == name for owner in owners):
                return stored.data
        return {}

    def status(self, name: str) -> Plain:
        """Return the status of a claim."""
        found: Plain = self.of(name).get("status") or {}
        return found

    def devices(self, name: str) -> list[str]:
        """Return the devices of a claim, as pool/device."""
        results = self.status(name).get("allocation", {}).get("devices", {}).get("results", ())
        return [f"{one['pool']}/{one['device']}" for one in results]

    def pods(self, name: str) -> list[str]:
        """Return the names of the pods that a claim is reserved for."""
        return [one["name"] for one in self.status(name).get("reservedFor", ())]

    def uid(self, name: str) -> str:
        """Return the UID of a pod."""
        return self._store.get(POD, "default", name).uid

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        self._store.delete(Key(POD, "default", name), DeleteOptions(grace_seconds=0))

    def taken(self) -> list[str]:
        """Return the devices of all claims, as often as they were given out."""
        return sorted(
            device
            for stored in self._store.select(DEVICE_CLAIM)
            for device in self.devices(stored.name)
        )

    def change(self, name: str, patch: Plain, subresource: str = "") -> None:
        """Change a claim as another client would."""
        key = Key(DEVICE_CLAIM, "default", name)
        self._store.patch(key, patch, MERGE, subresource)


def at(world: World, end: str, act: Callable[[int], None]) -> list[str]:
    """Act before each PATCH of a path with this end is handled; return all such paths."""
    came: list[str] = []

    async def before(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith(end):
            came.append(path)
            act(len(came))

    world.before = before
    return came
