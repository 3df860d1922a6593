"""What a kubelet checks before it takes a pod in, and what it says when it does not.

(kubelet's lifecycle/predicate.go; the checks are the scheduler's, made again on the node.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from policy_sched.model.node import Node
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.quantity import units
from policy_sched.model.requests import is_scalar_resource
from policy_sched.model.selectors import equality_selector, required_matches

_BUILT_IN: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod may not run on a node."""

    reason: str
    message: str


def rejection(pod: PodInfo, node: Node, others: Iterable[PodInfo]) -> Rejection | None:
    """Return why a node cannot take a pod beside those that are there, None if it can."""
    return next(_rejections(pod, node, tuple(others)), None)


def _rejections(pod: PodInfo, node: Node, others: tuple[PodInfo, ...]) -> Iterator[Rejection]:
    yield from _insufficient(pod, node, others)
    labels = node.metadata.labels
    if not (
        equality_selector(pod.node_selector).matches(labels)
        and required_matches(pod.node_affinity, labels, node.metadata.name)
    ):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    taken = [port for other in others for port in other.host_ports]
    if any(port.conflicts(other) for port in pod.host_ports for other in taken):
        why = "node(s) didn't have free ports for the requested pod ports"
        yield _failed("NodePorts", why)
    for taint in node.spec.taints:
        borne = (t.tolerates(taint.key, taint.value, taint.effect) for t in pod.tolerations)
        if taint.effect == "NoExecute" and not any(borne):
            why = "node(s) had taints that the pod didn't tolerate"
            yield _failed("TaintToleration", why)


def _insufficient(pod: PodInfo, node: Node, others: tuple[PodInfo, ...]) -> Iterator[Rejection]:
    allocatable = {name: units(name, amount) for name, amount in node.status.allocatable.items()}
    yield from _short("pods", 1, len(others), allocatable)
    for name in (*_BUILT_IN, *sorted(pod.requests.keys() - set(_BUILT_IN))):
        asked = pod.requests.get(name, 0)
        unknown = is_scalar_resource(name) and name not in allocatable
        if asked and not unknown:  # what the node does not know of is somebody else's to give
            used = sum(other.requests.get(name, 0) for other in others)
            yield from _short(name, asked, used, allocatable)


def _short(name: str, asked: int, used: int, allocatable: dict[str, int]) -> Iterator[Rejection]:
    capacity = allocatable.get(name, 0)
    if asked > capacity - used:
        numbers = f"requested: {asked}, used: {used}, capacity: {capacity}"
        message = f"Node didn't have enough resource: {name}, {numbers}"
        yield Rejection(f"OutOf{name}", f"Pod was rejected: {message}")


def _failed(name: str, why: str) -> Rejection:
    return Rejection(name, f"Pod was rejected: Predicate {name} failed: {why}")
