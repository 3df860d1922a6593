"""Devices, requests and allocations as records: what rules read of them.

The attributes are the fields of the records under their Python names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy_sched.model import Taint


class QualifiedNames(dict[str, Any]):
    """Values by name, where a name without a domain is one of the driver's domain.

    So ``model`` and ``gpu.example.com/model`` are one name if the driver is gpu.example.com.
    """

    __slots__ = ("_domain",)

    def __init__(self, driver: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._domain = f"{driver}/"

    def _other(self, name: object) -> str:
        """Return the other spelling of a name, "" if there is none."""
        if not isinstance(name, str):
            return ""
        if "/" not in name:
            return self._domain + name
        return name[len(self._domain) :] if name.startswith(self._domain) else ""

    def __contains__(self, name: object) -> bool:
        """Return whether there is a value of a name, however it is spelled."""
        return super().__contains__(name) or super().__contains__(self._other(name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, however it is spelled, else ``default``."""
        if super().__contains__(name):
            return super().__getitem__(name)
        return super().get(self._other(name), default)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a name, however it is spelled."""
        return super().__getitem__(name if super().__contains__(name) else self._other(name))

    def __reduce__(self) -> tuple[type[QualifiedNames], tuple[str, dict[str, Any]]]:
        """Pickle the values with the driver."""
        return QualifiedNames, (self._domain[:-1], dict(self))


class AttributeFacts(msgspec.Struct, frozen=True):
    """An attribute of a device; one of the fields has its value, the others are zero."""

    string: str = ""
    int: int = 0
    bool: bool = False
    version: str = ""


class DeviceFacts(msgspec.Struct, frozen=True, eq=False):
    """A device on a node. Amounts are in scheduler units, by name of the capacity.

    ``index`` is its place in the order in which kube-scheduler tries the node's devices.
    """

    driver: str = ""
    pool: str = ""
    name: str = ""
    index: int = 0
    attributes: Mapping[str, AttributeFacts] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, int] = msgspec.field(default_factory=dict)
    free: Mapping[str, int] = msgspec.field(default_factory=dict)
    consumed: Mapping[str, int] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool = False
    allocated: bool = False
    shares: int = 0
    taints: tuple[Taint, ...] = ()


class RequestFacts(msgspec.Struct, frozen=True, eq=False):
    """A request of a claim for devices; ``count`` is 0 where it asks for all of them."""

    name: str = ""
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool = False
    capacity: Mapping[str, int] = msgspec.field(default_factory=dict)


class AllocatedDeviceFacts(msgspec.Struct, frozen=True, eq=False):
    """A device that a request would get, with its score."""

    request: str = ""
    device: DeviceFacts = DeviceFacts()
    score: float = 0.0
    consumed_capacity: Mapping[str, int] = msgspec.field(default_factory=dict)


class AllocationFacts(msgspec.Struct, frozen=True, eq=False):
    """What the pod's claims would get on a node."""

    devices: tuple[AllocatedDeviceFacts, ...] = ()

    @property
    def score(self) -> float:
        """The sum of their scores."""
        return sum((one.score for one in self.devices), 0.0)


NO_DEVICE: Final = DeviceFacts()
NO_REQUEST: Final = RequestFacts()
NO_ALLOCATION: Final = AllocationFacts()
