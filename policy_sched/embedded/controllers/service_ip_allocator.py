"""Addresses of services: each gets a cluster IP of its own, and node ports if its type has them.

Nothing listens there. An API server gives them with the answer to a request; here they follow it.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any, Final

from policy_sched.client.apimachinery import SERVICE, Stored
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, Change, Key, ObjectStore
from policy_sched.manifests import Plain

NETWORK: Final = IPv4Network("10.96.0.0/12")
"""Where cluster IPs are from (kubeadm's --service-cidr); the first ones are kept for the system."""
_FIRST: Final = 256
PORTS: Final = range(30_000, 32_768)
"""Node ports (kube-apiserver's --service-node-port-range)."""
_WITH_PORTS: Final = ("NodePort", "LoadBalancer")
_FIXED: Final = ("clusterIP", "clusterIPs")


class ServiceIPAllocator(Controller):
    """Gives services their addresses."""

    kinds = frozenset({SERVICE})
    name = "service-ip"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._taken: dict[str, set[str | int]] = {}
        self._before: dict[Key, Plain] = {}

    def observe(self, change: Change) -> None:
        """Observe the addresses of services, and add services without one."""
        new = change.new
        key = Key(SERVICE, *new.place)
        self._taken.pop(new.uid, None)
        self._before.pop(key, None)
        if change.type == DELETED:
            return
        spec = _spec(new)
        self._taken[new.uid] = {*_taken(spec), str(spec.get("clusterIP") or "")}
        if spec.get("type") != "ExternalName" and (not spec.get("clusterIP") or _lacks(spec)):
            self._before[key] = {} if change.old is None else _spec(change.old)
            self._queue.add(key)

    def sync(self, key: Key) -> bool:
        """Allocate the addresses and node ports of a service."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        before = self._before.get(key)
        if stored is None or before is None:
            return False
        data, spec = stored.data, _spec(stored)
        data["spec"] = spec
        taken = {one for all_of_one in self._taken.values() for one in all_of_one}
        if not spec.get("clusterIP"):
            kept = {field: before[field] for field in _FIXED if before.get(field)}
            spec |= kept if "clusterIP" in kept else _address(taken)
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec.get("type") in _WITH_PORTS:
            free = (port for port in PORTS if port not in taken)
            for port in _ports(spec):
                if not port.get("nodePort") and (number := next(free, None)) is not None:
                    port["nodePort"] = number
        self._taken[stored.uid] = {str(spec["clusterIP"]), *_taken(spec)}
        self._store.revise(stored, data)
        self._before.pop(key, None)
        return True


def _address(taken: set[str | int]) -> Plain:
    """Return the first address that is free."""
    addresses = (str(NETWORK[place]) for place in range(_FIRST, NETWORK.num_addresses - 1))
    address = next(one for one in addresses if one not in taken)
    return {"clusterIP": address, "clusterIPs": [address]}


def _spec(service: Stored) -> Plain:
    """Return a service's specification; nothing of what is none."""
    found: Any = service.data.get("spec")
    return found if isinstance(found, dict) else {}


def _ports(spec: Plain) -> list[Plain]:
    ports: Any = spec.get("ports")
    return [one for one in (ports if isinstance(ports, list) else ()) if isinstance(one, dict)]


def _taken(spec: Plain) -> list[int]:
    numbers = (port.get("nodePort") for port in _ports(spec))
    return [number for number in numbers if isinstance(number, int) and number]


def _lacks(spec: Plain) -> bool:
    """Return whether a service with node ports has a port without one."""
    return spec.get("type") in _WITH_PORTS and len(_taken(spec)) < len(_ports(spec))
