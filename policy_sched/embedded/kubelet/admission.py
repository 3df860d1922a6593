"""What a kubelet checks before it takes a pod in, and what it says when it does not.

(kubelet's lifecycle/predicate.go; the checks are the scheduler's, made again on the node.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from policy_sched.model import (
    Amount,
    HostPort,
    Node,
    PodInfo,
    equality_selector,
    is_scalar_resource,
    ports_conflict,
    required_matches,
    units,
)

_BUILT_IN: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod may not run on a node."""

    reason: str
    message: str


class Usage:
    """What the pods on a node take."""

    def __init__(self, pods: Iterable[PodInfo] = ()) -> None:
        self.pods = 0
        self.amounts: dict[str, int] = {}
        self.ports: Counter[HostPort] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: PodInfo) -> None:
        """Take a pod in."""
        self.pods += 1
        self.ports.update(pod.host_ports)
        for name, amount in pod.requests.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount

    def remove(self, pod: PodInfo) -> None:
        """Let a pod go that was taken in."""
        self.pods -= 1
        for name, amount in pod.requests.items():
            self.amounts[name] -= amount
        for port in pod.host_ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]


def rejection(pod: PodInfo, node: Node, usage: Usage) -> Rejection | None:
    """Return why a node cannot take a pod beside those that are there, None if it can."""
    return next(_rejections(pod, node, usage), None)


def _rejections(pod: PodInfo, node: Node, usage: Usage) -> Iterator[Rejection]:
    yield from _insufficient(pod, node, usage)
    labels = node.metadata.labels
    if (pod.node_selector or pod.node_affinity is not None) and not (
        equality_selector(pod.node_selector).matches(labels)
        and required_matches(pod.node_affinity, labels, node.metadata.name)
    ):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if ports_conflict(pod.host_ports, usage.ports):
        why = "node(s) didn't have free ports for the requested pod ports"
        yield _failed("NodePorts", why)
    for taint in node.spec.taints:
        borne = (t.tolerates(taint.key, taint.value, taint.effect) for t in pod.tolerations)
        if taint.effect == "NoExecute" and not any(borne):
            why = "node(s) had taints that the pod didn't tolerate"
            yield _failed("TaintToleration", why)


def _insufficient(pod: PodInfo, node: Node, usage: Usage) -> Iterator[Rejection]:
    allocatable = node.status.allocatable
    yield from _short("pods", 1, usage.pods, allocatable)
    extended = sorted(pod.requests.keys() - set(_BUILT_IN))
    for name in (*_BUILT_IN, *extended):
        asked = pod.requests.get(name, 0)
        unknown = is_scalar_resource(name) and name not in allocatable
        if asked and not unknown:  # unknown scalar resources are not the kubelet's
            yield from _short(name, asked, usage.amounts.get(name, 0), allocatable)


def _short(
    name: str, asked: int, used: int, allocatable: Mapping[str, Amount]
) -> Iterator[Rejection]:
    capacity = units(name, allocatable.get(name, 0))
    if asked > capacity - used:
        numbers = f"requested: {asked}, used: {used}, capacity: {capacity}"
        message = f"Node didn't have enough resource: {name}, {numbers}"
        yield Rejection(f"OutOf{name}", f"Pod was rejected: {message}")


def _failed(name: str, why: str) -> Rejection:
    return Rejection(name, f"Pod was rejected: Predicate {name} failed: {why}")
