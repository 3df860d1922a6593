"""Constraints of a claim over the attributes of its devices, remembered while devices are tried."""

from __future__ import annotations

from typing import Protocol

from policy_sched.model import DeviceConstraint
from policy_sched.plugins.dynamicresources.devices import DeviceView, Value


class Constraint(Protocol):
    """A constraint; ``request`` and ``sub`` name what a device is tried for."""

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """Tell whether a device may be added, and remember it if so."""

    def remove(self, request: str, sub: str, device: DeviceView) -> None:
        """Forget a device that was added."""


def constraint_of(one: DeviceConstraint) -> Constraint | None:
    """Return what remembers the devices of a constraint; None if it is of no kind known."""
    if one.match_attribute is not None:
        return MatchAttribute(frozenset(one.requests), one.match_attribute)
    if one.distinct_attribute is not None:
        return DistinctAttribute(frozenset(one.requests), one.distinct_attribute)
    return None


def covers(requests: frozenset[str], request: str, sub: str) -> bool:
    """Tell whether a list of requests means one; an empty one means all."""
    if not requests or request in requests:
        return True
    return bool(sub) and f"{request}/{sub}" in requests


class MatchAttribute:
    """All devices have the attribute, with one value."""

    def __init__(self, requests: frozenset[str], name: str) -> None:
        self._requests = requests
        self.name = name
        self._value: Value | None = None
        self._count = 0

    def covers(self, request: str, sub: str) -> bool:
        """Tell whether a request is meant."""
        return not self._requests or covers(self._requests, request, sub)

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """The first device sets the value."""
        if not self.covers(request, sub):
            return True
        value = device.attribute(self.name)
        if value is None or (self._count and value != self._value):
            return False
        self._value = value
        self._count += 1
        return True

    def remove(self, request: str, sub: str, device: DeviceView) -> None:  # noqa: ARG002 - as Constraint has it
        """Without devices there is no value."""
        if self.covers(request, sub):
            self._count -= 1


class DistinctAttribute:
    """The attribute differs; of each request only the value of its last device counts."""

    def __init__(self, requests: frozenset[str], name: str) -> None:
        self._requests = requests
        self._name = name
        self._values: dict[str, Value] = {}

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """A device is refused whose value is remembered."""
        if self._requests and not covers(self._requests, request, sub):
            return True
        value = device.attribute(self._name)
        if value is None or value in self._values.values():
            return False
        self._values[request] = value
        return True

    def remove(self, request: str, sub: str, device: DeviceView) -> None:  # noqa: ARG002 - as Constraint has it
        """Forget the request's value."""
        if covers(self._requests, request, sub):
            self._values.pop(request, None)
