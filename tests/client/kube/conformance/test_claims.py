"""Claims of devices as PreBind, Unreserve and PostFilter write them, among other writers."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from policy_sched.client import ObjectRequest
from policy_sched.client.apimachinery.resources import DEVICE_CLAIM
from policy_sched.errors import ClusterError
from policy_sched.framework import SUCCESS, Code, PendingStatus, Status
from policy_sched.model import AllocationResult, PodInfo, ResourceClaim
from policy_sched.plugins.dynamicresources import claim_writes
from tests.client.kube.conformance.ground import Acting, Ground, Plain, played, typed

DEVICE: Final[Plain] = {
    "request": "r",
    "driver": "gpu.policy-sched.example.com",
    "pool": "pool",
    "device": "d0",
}


def _allocation(ground: Ground) -> Plain:
    """Return the allocation of a device of a node that is not there."""
    field = {"key": "metadata.name", "operator": "In", "values": [ground.nodes[0]]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": [DEVICE]}, "nodeSelector": selector}


async def _made(ground: Ground) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": ground.namespace}}
    made = await ground.make(DEVICE_CLAIM, "c", {"spec": {"devices": {"requests": [request]}}})
    return typed(made, ResourceClaim)


async def _seen(ground: Ground) -> ResourceClaim:
    return typed(await ground.seen("c", DEVICE_CLAIM), ResourceClaim)


async def _reserved_for(ground: Ground) -> list[str]:
    status = (await ground.seen("c", DEVICE_CLAIM)).get("status") or {}
    return [one["name"] for one in status.get("reservedFor", ())]


def _reserving(
    claim: ResourceClaim, pod: PodInfo, allocation: Plain | None = None
) -> claim_writes.Writing[Status]:
    """Write a pod, and perhaps an allocation, into a claim."""
    result = None if allocation is None else msgspec.convert(allocation, AllocationResult)
    try:
        yield from claim_writes.written(claim, pod, result, time.time_ns())
    except ClusterError as error:
        return Status(Code.ERROR, (str(error),))
    return SUCCESS


async def _run(acting: Acting, writing: claim_writes.Writing[Status]) -> Status:
    """Write, and return how it went."""
    run = claim_writes.Run(acting.client, writing, PendingStatus())
    run.start()
    assert await acting.done() == []
    assert run.status is not None
    return run.status


async def _sent(acting: Acting, request: ObjectRequest) -> ClusterError | None:
    """Send one request, and return its refusal."""
    refusals: list[ClusterError | None] = []
    acting.client.send(request, lambda _answer, error: refusals.append(error))
    assert await acting.done() == []
    return refusals[0]


def test_a_claim_is_allocated_shared_and_given_back(server: str) -> None:
    """Its status is as kube-scheduler writes it, whoever else writes to the claim."""

    async def play(ground: Ground) -> None:
        acting, allocation = Acting(ground), _allocation(ground)
        new, pods = await _made(ground), await ground.pods(2)
        assert (await _run(acting, _reserving(new, pods[0], allocation))).ok
        seen = await ground.seen("c", DEVICE_CLAIM)
        assert seen["metadata"]["finalizers"] == [claim_writes.FINALIZER]
        found = seen["status"]["allocation"]
        found.pop("allocationTimestamp", None)
        assert found == allocation
        consumer = {"resource": "pods", "name": "p0", "uid": pods[0].uid}
        assert seen["status"]["reservedFor"] == [consumer]
        old = await _seen(ground)
        await ground.merge(DEVICE_CLAIM, "c", {"metadata": {"annotations": {"a": "b"}}})
        assert (await _run(acting, _reserving(old, pods[1]))).ok
        assert await _reserved_for(ground) == ["p0", "p1"]
        assert await _sent(acting, claim_writes.unreservation(old, pods[0])) is None
        assert await _reserved_for(ground) == ["p1"]
        given = await _run(acting, claim_writes.given_back(old, pods[1]))
        assert given.reasons == (claim_writes.DEALLOCATED,)
        status = (await ground.seen("c", DEVICE_CLAIM)).get("status") or {}
        assert not status.keys() & {"allocation", "reservedFor", "devices"}

    played(server, play)


def test_of_two_schedulers_one_allocates(server: str) -> None:
    """The other finds the claim allocated, and leaves it alone."""

    async def play(ground: Ground) -> None:
        acting, allocation = Acting(ground), _allocation(ground)
        new, pods = await _made(ground), await ground.pods(2)
        assert (await _run(acting, _reserving(new, pods[0], allocation))).ok
        late = await _run(acting, _reserving(new, pods[1], allocation))
        text = f"claim {ground.namespace}/c got allocated elsewhere in the meantime"
        assert late.reasons == (text,)
        assert await _reserved_for(ground) == ["p0"]

    played(server, play)


def test_a_claim_that_goes_is_not_allocated(server: str) -> None:
    """What is deleted and kept by a finalizer, and what has gone, are told apart."""

    async def play(ground: Ground) -> None:
        acting, allocation = Acting(ground), _allocation(ground)
        new, (pod,) = await _made(ground), await ground.pods(1)
        held = {"metadata": {"finalizers": ["policy-sched.example.com/hold"]}}
        await ground.merge(DEVICE_CLAIM, "c", held)
        assert await _sent(acting, claim_writes.deletion(new)) is None
        late = await _run(acting, _reserving(new, pod, allocation))
        text = f"claim {ground.namespace}/c got deleted in the meantime"
        assert late.reasons == (text,)
        await ground.merge(DEVICE_CLAIM, "c", {"metadata": {"finalizers": None}})
        gone = await _run(acting, _reserving(new, pod, allocation))
        assert gone.reasons[0].startswith(f"add finalizer to claim {ground.namespace}/c: ")
        assert "not found" in gone.reasons[0]

    played(server, play)
