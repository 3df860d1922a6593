"""Pods with claims through a whole scheduler: devices are given, kept, and given back."""

from __future__ import annotations

import pytest

from policy_sched.client import MemoryClient, ObjectRequest, ObjectResponse
from policy_sched.model import DeviceClass, ResourceClaim
from policy_sched.scheduler import object_seen

from .world import (
    DRIVER,
    claim_of,
    device_class,
    devices_of,
    exactly,
    pod_with,
    resource_claim,
    resource_slice,
    schedule,
    scheduler_with,
)

DEVICES = [f"d{i}" for i in range(2)]


def test_a_claim_gets_the_first_device_and_is_reserved() -> None:
    """What kube-scheduler writes: allocation, consumer, finalizer."""
    objects = [device_class(), resource_slice("n0", DEVICES), resource_claim("a")]
    scheduler = scheduler_with(["n0"], objects)
    assert schedule(scheduler, pod_with("p", "a")) == ["n0"]
    claim = claim_of(scheduler, "a")
    assert devices_of(scheduler, "a") == ["n0/d0"]
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p"]
    assert claim.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    allocation = claim.status.allocation
    assert allocation is not None
    assert allocation.allocation_timestamp is not None


def test_pods_alike_get_different_devices_until_none_is_left() -> None:
    """Pods whose claims are alike share an evaluation, and never a device."""
    claims = [resource_claim(f"c{i}") for i in range(5)]
    slices = [resource_slice(node, DEVICES) for node in ("n0", "n1")]
    scheduler = scheduler_with(["n0", "n1"], [device_class(), *slices, *claims])
    pods = [pod_with(f"p{i}", f"c{i}") for i in range(5)]
    nodes = schedule(scheduler, *pods)
    assert sorted(nodes) == ["", "n0", "n0", "n1", "n1"]
    taken = [device for i in range(5) for device in devices_of(scheduler, f"c{i}")]
    assert sorted(taken) == ["n0/d0", "n0/d1", "n1/d0", "n1/d1"]


def test_a_shared_claim_keeps_its_pods_on_its_node() -> None:
    """The second pod of a claim goes where the first went."""
    slices = [resource_slice(node, DEVICES) for node in ("n0", "n1")]
    scheduler = scheduler_with(["n0", "n1"], [device_class(), *slices, resource_claim("a")])
    first, second = schedule(scheduler, pod_with("p", "a"), pod_with("q", "a"))
    assert first == second != ""
    assert len(claim_of(scheduler, "a").status.reserved_for) == 2


def test_a_pod_that_names_a_claim_twice_is_bound() -> None:
    """A pod that named one claim twice was never bound, and the claim stayed allocated.

    As with kube-scheduler devices are found for each name, and the last ones are written.
    """
    objects = [device_class(), resource_slice("n0", DEVICES), resource_claim("a")]
    scheduler = scheduler_with(["n0"], objects)
    twice, other = pod_with("p", "a", "a"), pod_with("q", "a", "a")
    assert schedule(scheduler, twice, other) == ["n0", "n0"]
    assert devices_of(scheduler, "a") == ["n0/d1"]
    assert [one.name for one in claim_of(scheduler, "a").status.reserved_for] == ["p", "q"]
    object_seen(scheduler, None, resource_claim("b"))
    assert schedule(scheduler, pod_with("r", "b")) == ["n0"]
    assert devices_of(scheduler, "b") == ["n0/d0"]


def test_a_pod_waits_for_its_claim_outside_of_the_queue() -> None:
    """Without the claim PreEnqueue holds the pod; when it comes the pod is tried."""
    scheduler = scheduler_with(["n0"], [device_class(), resource_slice("n0", DEVICES)])
    scheduler.add_pod(pod_with("p", "a"))
    assert scheduler.schedule_one() is None
    object_seen(scheduler, None, resource_claim("a"))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "n0"


def test_a_missing_class_is_told() -> None:
    """The message names the request and the class, as upstream's."""
    scheduler = scheduler_with(["n0"], [resource_slice("n0", DEVICES), resource_claim("a")])
    scheduler.add_pod(pod_with("p", "a"))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert "request r: device class gpu does not exist" in outcome.message


def test_an_extended_resource_that_devices_serve() -> None:
    """A claim is made for it, and the pod's status names the requests."""
    served = device_class(extendedResourceName="example.com/gpu")
    scheduler = scheduler_with(["n0"], [served, resource_slice("n0", DEVICES)])
    pods = [pod_with(f"p{i}", requests={"example.com/gpu": "1"}) for i in range(3)]
    assert schedule(scheduler, *pods) == ["n0", "n0", ""]
    made = scheduler.handle.objects.of(ResourceClaim)
    assert len(made) == 2
    taken = sorted(
        result.device
        for claim in made
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    )
    assert taken == DEVICES


class Requests(MemoryClient):
    """Keeps all requests."""

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Keep the request, and carry it out."""
        self.requests.append(request)
        super().send(request, done)


def test_a_claim_for_extended_resources_blocks_the_deletion_of_its_pod() -> None:
    """A claim that was made for a pod lacked blockOwnerDeletion, which kube-scheduler sets."""
    served, client = device_class(extendedResourceName="example.com/gpu"), Requests()
    objects = [served, resource_slice("n0", DEVICES)]
    scheduler = scheduler_with(["n0"], objects, client=client)
    client.objects = scheduler.handle.objects
    assert schedule(scheduler, pod_with("p", requests={"example.com/gpu": "1"})) == ["n0"]
    (made,) = [one for one in client.requests if one.verb == "create"]
    (owner,) = made.body["metadata"]["ownerReferences"]
    assert owner["controller"] is owner["blockOwnerDeletion"] is True
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "p", "uid-p")


def test_a_class_that_goes_serves_no_longer() -> None:
    """Then the resource is missing on every node, as any other."""
    served = device_class(extendedResourceName="example.com/gpu")
    scheduler = scheduler_with(["n0"], [served, resource_slice("n0", DEVICES)])
    (known,) = scheduler.handle.objects.of(DeviceClass)
    scheduler.handle.objects.remove(known)
    scheduler.add_pod(pod_with("p", requests={"example.com/gpu": "1"}))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert "Insufficient example.com/gpu" in outcome.message


@pytest.mark.parametrize("attribute", [True, False])
def test_constraints_hold_over_the_devices_of_a_claim(attribute: bool) -> None:
    """Two devices with one value are found where only some have it, and none where none has."""
    devices = [
        {"name": f"d{i}", "attributes": {"numa": {"int": i % 3}} if attribute else {}}
        for i in range(4)
    ]
    claim = resource_claim("a", exactly("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    scheduler = scheduler_with(["n0"], [device_class(), resource_slice("n0", devices), claim])
    assert schedule(scheduler, pod_with("p", "a")) == ["n0" if attribute else ""]
    assert devices_of(scheduler, "a") == (["n0/d0", "n0/d3"] if attribute else [])
