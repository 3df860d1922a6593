"""The result of a run over a cluster: placements and summary, for people and for programs.

The machine formats hold no times, paths or versions: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from policy_sched.model import counted, quantity_text
from policy_sched.report import Document, table
from policy_sched.simulate.policy_application import Applied

NOWHERE: Final = "-"


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """The decision for one pod: its node, or why it has none.

    ``feasible``: nodes that passed every filter; ``score``: total of the chosen node, None where
    nothing was scored. ``reasons``: kube-scheduler's reasons, each once, for the summary.
    """

    pod: str
    node: str | None
    message: str
    feasible: int
    score: int | None
    cpu: str
    memory: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """A preemption: the pod, its nominated node, and the victims."""

    pod: str
    node: str
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One resource over all nodes, in the scheduler's units (milli for cpu)."""

    resource: str
    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Requested share of the allocatable amount, in per cent; 0 where there is none."""
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. ``seconds`` covers the decisions; everything else is deterministic.

    ``unschedulable_by`` counts pods by reason; a pod that was refused for several reasons counts
    for each of them. ``policies``: what each policy applied to. ``skipped_extenders``: how often
    ignorable extenders failed, by name, and the last error of each.
    """

    nodes: int
    placements: tuple[PodPlacement, ...]
    unschedulable_by: Mapping[str, int]
    preemptions: tuple[Preemption, ...]
    allocation: tuple[Allocation, ...]
    seconds: float
    policies: tuple[Applied, ...] = ()
    skipped_extenders: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def placed(self) -> int:
        """Pods that have a node."""
        return sum(placement.node is not None for placement in self.placements)

    def text_lines(self, *, wide: bool = False) -> Iterator[str]:
        """Yield the table of placements and the summary."""
        yield from self.table_lines(wide=wide)
        yield ""
        yield from self.summary_lines()

    def table_lines(self, *, wide: bool) -> Iterator[str]:
        """Yield the table of placements, one line per pending pod in input order."""
        rows = [
            ("POD", "NODE", "FEASIBLE", "SCORE", "CPU", "MEMORY", "MESSAGE"),
            *(
                (
                    p.pod,
                    p.node or NOWHERE,
                    str(p.feasible),
                    _text(p.score),
                    p.cpu,
                    p.memory,
                    p.message,
                )
                for p in self.placements
            ),
        ]
        yield from table(rows if wide else [(*row[:2], row[-1]) for row in rows])

    def summary_lines(self) -> Iterator[str]:
        """Yield the summary for people, with the decisions per second."""
        total = len(self.placements)
        yield f"{self.placed:,} of {counted(total, 'pod')} placed on {counted(self.nodes, 'node')}"
        if self.unschedulable_by:
            yield ""
            yield "Unschedulable pods by reason:"
            width = len(str(max(self.unschedulable_by.values())))
            for reason, count in _by_count(self.unschedulable_by):
                yield f"  {count:>{width}}  {reason}"
        if self.preemptions:
            yield ""
            yield "Preemption:"
            for one in self.preemptions:
                yield f"  {one.pod} is nominated to {one.node}; victims: {', '.join(one.victims)}"
        if self.policies:
            yield ""
            yield from policy_lines(self.policies)
        if self.skipped_extenders:
            yield ""
            yield "Extenders that failed and were ignored:"
            for name, (count, error) in self.skipped_extenders.items():
                yield f"  {name}: {counted(count, 'failure')}, the last: {error}"
        if self.allocation:
            yield ""
            yield "Allocation:"
            amounts = [_amounts(one) for one in self.allocation]
            first, second = (max(map(len, column)) for column in zip(*amounts, strict=True))
            rows = [
                ("", a.resource, f"{used:>{first}} of {given:>{second}}", f"{a.percent:.1f} %")
                for a, (used, given) in zip(self.allocation, amounts, strict=True)
            ]
            yield from table(rows, (3,), gap="  ")

    def document(self) -> Document:
        """Return placements and summary as plain data; amounts are in the scheduler's units."""
        return {
            "placements": list(self.records()),
            "summary": {
                "nodes": self.nodes,
                "pods": len(self.placements),
                "placed": self.placed,
                "unschedulable": len(self.placements) - self.placed,
                "unschedulableByReason": dict(_by_count(self.unschedulable_by)),
                "policies": policy_document(self.policies),
                "preemptions": [
                    {"pod": p.pod, "node": p.node, "victims": list(p.victims)}
                    for p in self.preemptions
                ],
                "allocation": {
                    a.resource: {
                        "requested": _amount(a, a.requested),
                        "allocatable": _amount(a, a.allocatable),
                        "percent": round(a.percent, 2),
                    }
                    for a in self.allocation
                },
                "skippedExtenders": {
                    name: {"failures": count, "error": error}
                    for name, (count, error) in self.skipped_extenders.items()
                },
            },
        }

    def records(self) -> Iterator[Document]:
        """Yield pod, node or null, and message of each pending pod."""
        for p in self.placements:
            yield {"pod": p.pod, "node": p.node, "message": p.message}

    def speed_line(self) -> str:
        """Return the number of decisions per second."""
        total = len(self.placements)
        rate = f"{total / self.seconds:,.0f}" if self.seconds > 0 else "-"
        return f"{counted(total, 'decision')} in {self.seconds:.2f} s ({rate} decisions/s)"


def policy_lines(policies: Sequence[Applied], title: str = "Policies:") -> Iterator[str]:
    """Yield how many pods and nodes each policy applied to."""
    yield title
    several = len({one.profile for one in policies}) > 1
    rows = [
        ("", f"{one.policy} in profile {one.profile}" if several else one.policy, applied_text(one))
        for one in policies
    ]
    yield from table(rows, gap="  ")


def applied_text(one: Applied) -> str:
    """Return how many pods and nodes a policy applied to, in words."""
    parts = [f"matched {one.matched:,} of {counted(one.pods, 'pod')}"]
    nodes = counted(one.nodes, "node")
    if one.rejected is not None:
        parts.append(f"rejected {one.rejected:,} of {nodes}")
    if one.scored is not None:
        parts.append(f"scored {one.scored:,} of {nodes} above 0")
    return ", ".join(parts)


def policy_document(policies: Sequence[Applied]) -> list[dict[str, object]]:
    """Return how many pods and nodes each policy applied to, as plain data."""
    return [asdict(one) for one in policies]


def _by_count(counts: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _amount(allocation: Allocation, amount: int) -> str:
    return quantity_text(allocation.resource, amount)


def _amounts(allocation: Allocation) -> tuple[str, str]:
    return _amount(allocation, allocation.requested), _amount(allocation, allocation.allocatable)


def _text(value: int | None) -> str:
    return NOWHERE if value is None else str(value)
