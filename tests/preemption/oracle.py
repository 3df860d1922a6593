"""Preemption node by node in plain Python: the oracle for the search.

Written from the description of kube-scheduler's behaviour: cpu, the number of pods and host ports
decide what fits; nominated pods of equal or higher priority count as if they were running, and the
pod must fit without them, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


def reasons(node: OracleNode, running: Sequence[OraclePod], pod: OraclePod) -> list[str]:
    """Return why the pod does not fit beside what runs; empty if it does."""
    taken = {port for other in running for port in other.ports}
    if taken & set(pod.ports):
        return [PORTS]
    found = []
    if len(running) + 1 > node.pods:
        found.append("Too many pods")
    if pod.cpu and sum(other.cpu for other in running) + pod.cpu > node.cpu:
        found.append("Insufficient cpu")
    return found


def rejection(node: OracleNode, running: Sequence[OraclePod], pod: OraclePod) -> list[str]:
    """Return why the pod does not fit, first with nominated pods, then without them."""
    rivals = [other for other in node.nominated if other.priority >= pod.priority]
    return reasons(node, [*running, *rivals], pod) or reasons(node, running, pod)


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
    at_first = rejection(node, node.running, pod)
    if at_first != [PORTS] and pod.cpu > node.cpu:
        return "Preemption is not helpful for scheduling"
    lower = importance(other for other in node.running if other.priority < pod.priority)
    if not lower:
        return "No preemption victims found for incoming pod"
    staying = [other for other in node.running if other not in lower]
    why = rejection(node, staying, pod)
    if why:
        return why
    first = breaking(lower, budgets)
    victims = []
    for other in [*first, *(other for other in lower if other not in first)]:
        if rejection(node, [*staying, other], pod):
            victims.append(other)
        else:
            staying.append(other)
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
