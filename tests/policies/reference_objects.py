"""Plain facts of pods and nodes for the reference: quantities, requests, ports, images, state.

Written from the observable rules of the Kubernetes API and without any module of the package, so
that the package can be compared with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

Json = dict[str, Any]

_SUFFIXES = {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)} | {
    letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)
}
_SUFFIXES |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))$")
_DEFAULT_CPU = Fraction(1, 10)
_DEFAULT_MEMORY = Fraction(200 * 1024 * 1024)


@lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """Return the exact value of a quantity."""
    match = _QUANTITY.match(text)
    assert match, text
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return Fraction(number) * scale


def units(resource: str, amount: Fraction) -> int:
    """Return an amount in the scheduler's integers: milli for cpu, whole for others, rounded up."""
    return math.ceil(amount * 1000) if resource == "cpu" else math.ceil(amount)


def is_native(name: str) -> bool:
    """Whether Kubernetes itself owns the resource name."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether the resource is an extended one, which `ignoredResources` may exclude."""
    return not is_native(name) and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts the resource beside cpu, memory and ephemeral-storage."""
    prefixed = name.startswith(("hugepages-", "attachable-volumes-"))
    return is_extended(name) or prefixed or "kubernetes.io/" in name


def counted(name: str) -> bool:
    """Whether the scheduler keeps a number for the resource at all."""
    return name in {"cpu", "memory", "ephemeral-storage"} or is_scalar(name)


def _add(total: dict[str, Fraction], more: dict[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _raise_to(total: dict[str, Fraction], floor: dict[str, Fraction]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, amount), amount)


def _container(container: Json, missing: dict[str, Fraction]) -> dict[str, Fraction]:
    written = container.get("resources", {}).get("requests", {})
    return missing | {name: quantity(str(text)) for name, text in written.items()}


def _containers_total(spec: Json, missing: dict[str, Fraction]) -> dict[str, Fraction]:
    """Sum main containers and sidecars; init containers run beside the sidecars before them."""
    total: dict[str, Fraction] = {}
    for container in spec.get("containers", []):
        _add(total, _container(container, missing))
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers", []):
        request = _container(container, missing)
        if container.get("restartPolicy") == "Always":
            _add(total, request)
            _add(sidecars, request)
            request = dict(sidecars)
        else:
            _add(request, sidecars)
        _raise_to(peak, request)
    _raise_to(total, peak)
    return total


def requests(
    spec: Json, missing: dict[str, Fraction] | None = None, *, pod_level: bool = True
) -> dict[str, int]:
    """Return a pod's effective requests; ``missing`` is the default of each container."""
    total = _containers_total(spec, missing or {})
    written = spec.get("resources", {}).get("requests", {}) if pod_level else {}
    for name, text in written.items():
        if name in {"cpu", "memory"} or name.startswith("hugepages-"):
            total[name] = quantity(str(text))
    _add(total, {name: quantity(str(text)) for name, text in spec.get("overhead", {}).items()})
    return {name: units(name, amount) for name, amount in total.items() if counted(name)}


def non_zero_when_pending(spec: Json) -> dict[str, int]:
    """Return the requests by which NodeResourcesFit scores a pending pod.

    A container without a request counts 100m and 200Mi. Pod-level requests are ignored:
    kube-scheduler 1.36 leaves them out here, though its filter and the bound pods have them.
    """
    return requests(spec, {"cpu": _DEFAULT_CPU, "memory": _DEFAULT_MEMORY}, pod_level=False)


def non_zero_when_bound(spec: Json) -> dict[str, int]:
    """Return the requests that a bound pod adds to its node's non-zero total.

    With pod-level requests, a resource that the pod names anywhere gets no per-container default.
    """
    missing = {"cpu": _DEFAULT_CPU, "memory": _DEFAULT_MEMORY}
    if spec.get("resources", {}).get("requests"):
        named = requests(spec)
        missing = {name: amount for name, amount in missing.items() if name not in named}
    return requests(spec, missing)


def host_ports(spec: Json) -> frozenset[tuple[str, str, int]]:
    """Return (ip, protocol, port) of main containers and sidecars."""
    sidecars = [c for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in spec.get("containers", []) + sidecars
        for port in container.get("ports", [])
        if port.get("hostPort", 0) > 0
    )


def images(spec: Json) -> list[str]:
    """Return the image of every container and image volume, with its tag."""
    names = [c.get("image", "") for c in spec.get("initContainers", []) + spec["containers"]]
    names += [v["image"].get("reference", "") for v in spec.get("volumes", []) if "image" in v]
    return [name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names]


@dataclass
class NodeState:
    """One node and the totals of the pods on it."""

    manifest: Json
    requested: dict[str, int] = field(default_factory=dict)
    non_zero: dict[str, int] = field(default_factory=dict)
    ports: set[tuple[str, str, int]] = field(default_factory=set)
    pods: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.manifest["metadata"].get("labels") or {}

    @property
    def taints(self) -> list[Json]:
        """The node's taints."""
        return self.manifest.get("spec", {}).get("taints") or []

    def allocatable(self, resource: str) -> int:
        """Return the node's allocatable amount of a resource, 0 if it has none."""
        text = self.manifest.get("status", {}).get("allocatable", {}).get(resource, "0")
        return units(resource, quantity(str(text)))

    def add(self, pod: Json) -> None:
        """Count a pod that runs here."""
        spec = pod["spec"]
        self.pods += 1
        self.ports |= host_ports(spec)
        for name, amount in requests(spec).items():
            self.requested[name] = self.requested.get(name, 0) + amount
        for name, amount in non_zero_when_bound(spec).items():
            self.non_zero[name] = self.non_zero.get(name, 0) + amount


class ClusterState:
    """The nodes in name order, and the nodes of each image."""

    def __init__(self, objects: list[Json]) -> None:
        """Take the nodes and bound pods of ``objects``."""
        nodes = [o for o in objects if o["kind"] == "Node"]
        self.nodes = {n["metadata"]["name"]: NodeState(n) for n in nodes}
        self.image_nodes: dict[str, int] = {}
        self.image_size: dict[str, int] = {}
        for node in nodes:
            names = set()
            for image in node.get("status", {}).get("images", []):
                for name in image.get("names", []):
                    names.add(name)
                    self.image_size.setdefault(name, image.get("sizeBytes", 0))
            for name in names:
                self.image_nodes[name] = self.image_nodes.get(name, 0) + 1
        for pod in objects:
            if pod["kind"] == "Pod" and pod["spec"].get("nodeName") in self.nodes:
                self.nodes[pod["spec"]["nodeName"]].add(pod)
