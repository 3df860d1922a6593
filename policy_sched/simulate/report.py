"""What a run over a cluster came to: placements and summary, for people and for programs.

The machine formats hold no times, paths or versions: the same input gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import msgspec
import yaml

from policy_sched.model import counted, quantity_text
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


def table_lines(run: Run, *, wide: bool) -> Iterator[str]:
    """Yield the table of placements, one line per pending pod in input order."""
    header = ["POD", "NODE", "FEASIBLE", "SCORE", "CPU", "MEMORY", "MESSAGE"]
    rows = [
        [p.pod, p.node or NOWHERE, str(p.feasible), _text(p.score), p.cpu, p.memory, p.message]
        for p in run.placements
    ]
    if not wide:
        header = header[:2] + header[-1:]
        rows = [row[:2] + row[-1:] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "   ".join(cells).rstrip()


def summary_lines(run: Run) -> Iterator[str]:
    """Yield the summary for people, with the decisions per second."""
    total = len(run.placements)
    yield f"{run.placed:,} of {counted(total, 'pod')} placed on {counted(run.nodes, 'node')}"
    if run.unschedulable_by:
        yield ""
        yield "Unschedulable pods by reason:"
        width = len(str(max(run.unschedulable_by.values())))
        for reason, count in _by_count(run.unschedulable_by):
            yield f"  {count:>{width}}  {reason}"
    if run.preemptions:
        yield ""
        yield "Preemption:"
        for one in run.preemptions:
            yield f"  {one.pod} is nominated to {one.node}; victims: {', '.join(one.victims)}"
    if run.policies:
        yield ""
        yield from policy_lines(run.policies)
    if run.skipped_extenders:
        yield ""
        yield "Extenders that failed and were ignored:"
        for name, (count, error) in run.skipped_extenders.items():
            yield f"  {name}: {counted(count, 'failure')}, the last: {error}"
    if run.allocation:
        yield ""
        yield "Allocation:"
        rows = [
            (a.resource, _amount(a, a.requested), _amount(a, a.allocatable), f"{a.percent:.1f} %")
            for a in run.allocation
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for name, requested, allocatable, percent in rows:
            yield (
                f"  {name:<{widths[0]}}  {requested:>{widths[1]}} of {allocatable:>{widths[2]}}"
                f"  {percent:>{widths[3]}}"
            )


def policy_lines(policies: Sequence[Applied], title: str = "Policies:") -> Iterator[str]:
    """Yield how many pods and nodes each policy applied to."""
    yield title
    several = len({one.profile for one in policies}) > 1
    rows = [
        (f"{one.policy} in profile {one.profile}" if several else one.policy, applied_text(one))
        for one in policies
    ]
    width = max(len(name) for name, _ in rows)
    for name, what in rows:
        yield f"  {name:<{width}}  {what}"


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


def speed_line(run: Run) -> str:
    """Return how fast the decisions came."""
    total = len(run.placements)
    rate = f"{total / run.seconds:,.0f}" if run.seconds > 0 else "-"
    return f"{counted(total, 'decision')} in {run.seconds:.2f} s ({rate} decisions/s)"


def as_jsonl(run: Run) -> str:
    """Return one line per pending pod: pod, node or null, message."""
    encode = msgspec.json.Encoder().encode
    lines = [encode({"pod": p.pod, "node": p.node, "message": p.message}) for p in run.placements]
    return b"".join(line + b"\n" for line in lines).decode()


def as_json(run: Run) -> str:
    """Return one JSON document: placements and summary."""
    return json.dumps(document(run), indent=2, ensure_ascii=False) + "\n"


def as_yaml(run: Run) -> str:
    """Return the same document as YAML."""
    return yaml.dump(
        document(run), Dumper=_OneLine, sort_keys=False, allow_unicode=True, width=10**6
    )


class _OneLine(yaml.SafeDumper):
    """Writes every text on one line: a line of a message may look like a command to a log."""

    def represent_str(self, data: str) -> yaml.nodes.ScalarNode:
        """Return a text, in double quotes if it has line breaks, which are escaped there."""
        style = '"' if len(data.splitlines()) > 1 or data.endswith("\n") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_OneLine.add_representer(str, _OneLine.represent_str)


def document(run: Run) -> dict[str, object]:
    """Return placements and summary as plain data; amounts are in the scheduler's units."""
    return {
        "placements": [
            {"pod": p.pod, "node": p.node, "message": p.message} for p in run.placements
        ],
        "summary": {
            "nodes": run.nodes,
            "pods": len(run.placements),
            "placed": run.placed,
            "unschedulable": len(run.placements) - run.placed,
            "unschedulableByReason": dict(_by_count(run.unschedulable_by)),
            "policies": policy_document(run.policies),
            "preemptions": [
                {"pod": p.pod, "node": p.node, "victims": list(p.victims)} for p in run.preemptions
            ],
            "allocation": {
                a.resource: {
                    "requested": _amount(a, a.requested),
                    "allocatable": _amount(a, a.allocatable),
                    "percent": round(a.percent, 2),
                }
                for a in run.allocation
            },
            "skippedExtenders": {
                name: {"failures": count, "error": error}
                for name, (count, error) in run.skipped_extenders.items()
            },
        },
    }


def _by_count(counts: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _amount(allocation: Allocation, amount: int) -> str:
    return quantity_text(allocation.resource, amount)


def _text(value: int | None) -> str:
    return NOWHERE if value is None else str(value)
