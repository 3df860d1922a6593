"""How much of a shareable device's capacities a request consumes, and whether that is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.model import (
    Amount,
    CapacityRequestPolicy,
    DeviceCapacity,
    Format,
    Quantity,
    quantity,
)
from policy_sched.plugins.dynamicresources.devices import DeviceView

NANO: Final = 10**9
_NOTHING: Final[Mapping[str, int]] = {}


def consumption(
    device: DeviceView, requests: Mapping[str, Amount], used: Mapping[str, int] | None
) -> dict[str, Quantity] | None:
    """Return what a request takes of each capacity of a device; None if that is not to be had.

    ``used``: what others take already, in nano-units.
    """
    if any(name not in device.capacity for name in requests):
        return None
    before = used or _NOTHING
    found: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        taken = _consumed(requests.get(name), capacity)
        if _violates(taken, capacity.request_policy):
            return None
        if before.get(name, 0) + taken.nanos > quantity(capacity.value).nanos:
            return None
        found[name] = taken
    return found


def _consumed(request: Amount | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if request is None:
        default = None if policy is None else policy.default
        return quantity(capacity.value if default is None else default)
    requested = quantity(request)
    if policy is None:
        return requested
    limits = policy.valid_range
    if limits is not None:
        least = quantity(limits.min or 0)
        if requested.nanos < least.nanos:
            return least
        if limits.step is not None:
            step = quantity(limits.step).value()
            over = requested.value() - least.value()
            steps = -(-over // step) if step else 0
            return Quantity((least.value() + steps * step) * NANO, Format.BINARY_SI)
        return requested
    for one in map(quantity, policy.valid_values):
        if one.nanos >= requested.nanos:
            return one
    return requested


def _violates(taken: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None:
        return False
    if policy.default is not None and quantity(policy.default).nanos == taken.nanos:
        return False
    limits = policy.valid_range
    if limits is not None:
        if limits.max is not None and taken.nanos > quantity(limits.max).nanos:
            return True
        step = 0 if limits.step is None else quantity(limits.step).value()
        return bool(step and (taken.value() - quantity(limits.min or 0).value()) % step)
    values = [quantity(one).nanos for one in policy.valid_values]
    return bool(values) and taken.nanos not in values
