"""Runs a recorded case of the allocator."""

from __future__ import annotations

from typing import Any

import msgspec

from policy_sched.model import DeviceClass, Node, ResourceClaim, ResourceSlice, nanos
from policy_sched.plugins.dynamicresources.allocation_result import allocation_result
from policy_sched.plugins.dynamicresources.allocator import Allocator, NodeError
from policy_sched.plugins.dynamicresources.devices import DeviceId, NodeView
from policy_sched.plugins.dynamicresources.pools import AllocatedState, PoolError, SliceIndex
from policy_sched.plugins.dynamicresources.requests import AllocationError, ClaimPlan

from .cases import Case
from .replay import without_nulls


def _device(text: str) -> DeviceId:
    driver, pool, device, *_ = text.split("/")
    return DeviceId(driver, pool, device)


def state_of(allocated: dict[str, Any]) -> AllocatedState:
    """Return the devices that a case says are in use."""
    return AllocatedState(
        frozenset(map(_device, allocated.get("devices") or ())),
        {_device(text): 1 for text in allocated.get("sharedDevices") or ()},
        {
            _device(text): {name: nanos(amount) for name, amount in amounts.items()}
            for text, amounts in (allocated.get("consumedCapacity") or {}).items()
        },
    )


def allocate(case: Case) -> dict[str, Any]:
    """Return what the allocator says, in the form of the recorded answer."""
    plain = without_nulls(case)
    node = msgspec.convert(plain["node"], Node)
    view = NodeView(node.metadata.name, node.metadata.labels)
    slices = SliceIndex([msgspec.convert(one, ResourceSlice) for one in plain["slices"]])
    known = [msgspec.convert(one, DeviceClass) for one in plain.get("classes") or ()]
    classes = {one.metadata.name: one for one in known}
    claims = [msgspec.convert(one, ResourceClaim) for one in plain["claims"]]
    plans = [ClaimPlan.of(claim, classes.get) for claim in claims]
    try:
        allocator = Allocator(view, slices.gather(view), state_of(plain["allocated"]))
        taken = allocator.allocate(plans)
    except NodeError as error:
        return {"error": str(error), "onNodeOnly": True}
    except (AllocationError, PoolError) as error:
        return {"error": str(error), "onNodeOnly": False}
    if taken is None:
        return {"allocated": False}
    results = [
        allocation_result(claim, one, view.name, classes.get, lambda: "(random)")
        for claim, one in zip(claims, taken, strict=True)
    ]
    return {
        "allocated": True,
        "allocations": [msgspec.json.decode(msgspec.json.encode(one)) for one in results],
    }
