"""Preemption node by node in plain Python: the oracle for the search.

Written from the description of kube-scheduler's behaviour: cpu, the number of pods and host ports
decide what fits; nominated pods of equal or higher priority count as if they were running, and the
pod must fit without them, too. The host ports in use are a set, as kube-scheduler keeps them: a
port that two pods hold is free when one of them is removed, and in use when one is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

NOW = 10**9
"""The start, in seconds, of a pod without one: later than every other."""

PORTS = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True)
class OraclePod:
    """A pod; ``start`` in seconds, None if it did not start; ``app`` its only label, if any."""

    name: str
    priority: int
    cpu: int
    start: int | None = 0
    app: str = ""
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class OracleBudget:
    """A budget over the pods of an app."""

    app: str
    allowed: int
    disrupted: tuple[str, ...] = ()


@dataclass(frozen=True)
class OracleNode:
    """A node, its pods in order of arrival, and the pods nominated to it."""

    name: str
    cpu: int
    pods: int
    running: tuple[OraclePod, ...]
    nominated: tuple[OraclePod, ...] = ()


@dataclass(frozen=True)
class OracleCandidate:
    """The victims, most important first, and the number of violated budgets."""

    victims: tuple[OraclePod, ...]
    violations: int = field(default=0)


class NodeInfo:
    """What a dry run keeps of a node: its pods, and the host ports in use."""

    def __init__(self, node: OracleNode) -> None:
        self.node = node
        self.pods = list(node.running)
        self.ports = {port for pod in node.running for port in pod.ports}

    def with_added(self, pods: Collection[OraclePod]) -> NodeInfo:
        """Return a copy to which the pods are added."""
        found = copy(self)
        found.pods = [*self.pods, *pods]
        found.ports = self.ports.union(*(pod.ports for pod in pods))
        return found

    def without(self, pods: Collection[OraclePod]) -> NodeInfo:
        """Return a copy from which the pods are removed, and their ports with them."""
        found = copy(self)
        found.pods = [pod for pod in self.pods if pod not in pods]
        found.ports = self.ports.difference(*(pod.ports for pod in pods))
        return found

    def reasons(self, pod: OraclePod) -> list[str]:
        """Return why the pod does not fit beside what runs; empty if it does."""
        if self.ports & set(pod.ports):
            return [PORTS]
        found = []
        if len(self.pods) + 1 > self.node.pods:
            found.append("Too many pods")
        if pod.cpu and sum(other.cpu for other in self.pods) + pod.cpu > self.node.cpu:
            found.append("Insufficient cpu")
        return found

    def rejection(self, pod: OraclePod) -> list[str]:
        """Return why the pod does not fit, first with nominated pods, then without them."""
        rivals = [other for other in self.node.nominated if other.priority >= pod.priority]
        return self.with_added(rivals).reasons(pod) or self.reasons(pod)


def importance(pods: Iterable[OraclePod]) -> list[OraclePod]:
    """Return the pods, most important first; of pods without a start the newest is first."""
    numbered = list(enumerate(pods))

    def key(item: tuple[int, OraclePod]) -> tuple[int, int, int]:
        number, pod = item
        if pod.start is None:
            return -pod.priority, NOW, -number
        return -pod.priority, pod.start, number

    return [pod for _, pod in sorted(numbered, key=key)]


def breaking(pods: Sequence[OraclePod], budgets: Sequence[OracleBudget]) -> list[OraclePod]:
    """Return the pods whose eviction would violate a budget if all were evicted."""
    left = [budget.allowed for budget in budgets]
    found = []
    for pod in pods:
        over = False
        for i, budget in enumerate(budgets):
            if pod.app == budget.app and pod.name not in budget.disrupted:
                left[i] -= 1
                over |= left[i] < 0
        if over:
            found.append(pod)
    return found


def candidate(
    node: OracleNode, pod: OraclePod, budgets: Sequence[OracleBudget]
) -> OracleCandidate | str | list[str]:
    """Return the victims on a node, or why there are none: a sentence, or the filters' reasons."""
    info = NodeInfo(node)
    if info.rejection(pod) != [PORTS] and pod.cpu > node.cpu:
        return "Preemption is not helpful for scheduling"
    lower = importance(other for other in node.running if other.priority < pod.priority)
    if not lower:
        return "No preemption victims found for incoming pod"
    info = info.without(lower)
    why = info.rejection(pod)
    if why:
        return why
    first = breaking(lower, budgets)
    victims = []
    for other in [*first, *(other for other in lower if other not in first)]:
        info = info.with_added([other])
        if info.rejection(pod):
            info = info.without([other])
            victims.append(other)
    violations = sum(victim in first for victim in victims)
    return OracleCandidate(tuple(other for other in lower if other in victims), violations)


def best(candidates: dict[str, OracleCandidate]) -> set[str]:
    """Return the nodes that remain after the five criteria."""

    def key(found: OracleCandidate) -> tuple[int, int, int, int, int]:
        highest = max(victim.priority for victim in found.victims)
        starts = [
            NOW if victim.start is None else victim.start
            for victim in found.victims
            if victim.priority == highest
        ]
        total = sum(victim.priority + 2**31 for victim in found.victims)
        return found.violations, highest, total, len(found.victims), -min(starts)

    least = min(map(key, candidates.values()))
    return {name for name, found in candidates.items() if key(found) == least}


def message(answers: Sequence[str | list[str]]) -> str:
    """Return the message if no node is a candidate."""
    flat = [reason for one in answers for reason in ([one] if isinstance(one, str) else one)]
    parts = sorted(f"{count} {reason}" for reason, count in Counter(flat).items())
    head = "no new claims to deallocate, preemption:"
    return f"{head} 0/{len(answers)} nodes are available: {', '.join(parts)}."
