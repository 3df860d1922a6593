"""Small frozen records that pods, nodes and the rule language share: taints, ports, containers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from policy_sched.model.meta import ApiValue, Int64

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # the API's notation for every address of a node


class Taint(ApiValue, frozen=True, gc=False):
    """Keeps pods off a node. Effects: NoSchedule, PreferNoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(ApiValue, frozen=True, gc=False):
    """Tolerates taints. Empty key or effect matches every one; an empty operator is Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Return whether a taint is tolerated; not by Lt and Gt, whose feature gate is off."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == value


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a pod uses; the address 0.0.0.0 is every address."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Return whether two ports cannot be used together on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


#: Number of pairs of ports up to which comparing is faster than indexing.
_FEW_PAIRS: Final = 64


class _Index:
    """Ports by protocol and number: their addresses. Keeps the last index."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[HostPort], dict[tuple[str, int], set[str]]] = (), {}

    def of(self, ports: Sequence[HostPort]) -> dict[tuple[str, int], set[str]]:
        """Return the addresses of some ports by protocol and number."""
        known, found = self._last
        if known is not ports:
            found = {}
            for port in ports:
                found.setdefault((port.protocol, port.port), set()).add(port.ip)
            self._last = ports, found
        return found


_INDEX: Final = _Index()


def ports_conflict(wanted: Sequence[HostPort], used: Collection[HostPort]) -> bool:
    """Return whether a port of one list conflicts with one of another."""
    if len(wanted) * len(used) <= _FEW_PAIRS:
        return any(port.conflicts(other) for port in wanted for other in used)
    index = _INDEX.of(wanted)
    for port in used:
        addresses = index.get((port.protocol, port.port))
        if addresses and (
            port.ip == ANY_ADDRESS or port.ip in addresses or ANY_ADDRESS in addresses
        ):
            return True
    return False


class Condition(ApiValue, frozen=True, gc=False):
    """One condition of a node's or a pod's status; status is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Container(msgspec.Struct, frozen=True, eq=False):
    """A container in rules; ``kind`` is init, sidecar or main.

    ``requests`` and ``limits`` are in scheduler units and must not be changed.
    """

    name: str
    image: str
    kind: str
    requests: Mapping[str, int]
    limits: Mapping[str, int]

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if not isinstance(other, Container):
            return NotImplemented
        return (
            self.name == other.name
            and self.image == other.image
            and self.kind == other.kind
            and self.requests == other.requests
            and self.limits == other.limits
        )

    def __hash__(self) -> int:
        """Return a hash; equal containers have equal hashes."""
        return hash((self.name, self.image, self.kind))
