"""Binding conditions: what a driver must say of an allocated device before its pod is bound."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from policy_sched.errors import PolicySchedError
from policy_sched.model import DeviceRequestAllocationResult, ResourceClaim, nanoseconds


class BindingError(PolicySchedError):
    """A device cannot be used after all."""


class Readiness(Enum):
    """Whether the devices of a claim can be used."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"
    TIMED_OUT = "timed out"


def conditional(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    """Return the devices of a claim that have binding conditions."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return [one for one in results if one.binding_conditions]


def check(claim: ResourceClaim) -> bool:
    """Tell whether all binding conditions of a claim hold. Raises BindingError for a failed one."""
    if claim.status.allocation is None:
        return False
    ready = True
    for result in conditional(claim):
        found = dict(_conditions(claim, result))
        for name in result.binding_failure_conditions:
            status, reason, message = found.get(name, ("", "", ""))
            if status == "True":
                raise BindingError(
                    f"device binding failed: claim={claim.metadata.name}, reason={reason}, "
                    f'message="{message}"'
                )
        ready = ready and all(
            found.get(name, ("",))[0] == "True" for name in result.binding_conditions or ()
        )
    return ready


def _conditions(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == (
            result.driver,
            result.pool,
            result.device,
        ):
            for one in device.conditions:
                yield one.type, (one.status, one.reason, one.message)


def timed_out(claim: ResourceClaim, now: int, timeout: int) -> bool:
    """Tell whether a claim has waited for longer than the time-out, both in nanoseconds."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(one.binding_conditions is None for one in allocation.devices.results):
        return False
    return nanoseconds(allocation.allocation_timestamp) + timeout < now


def readiness(claim: ResourceClaim, now: int, timeout: int) -> Readiness:
    """Return whether an allocated claim can be used now."""
    try:
        if check(claim):
            return Readiness.READY
    except BindingError:
        return Readiness.FAILED
    return Readiness.TIMED_OUT if timed_out(claim, now, timeout) else Readiness.WAITING
