"""How many replicas fit: the result, its text and its plain data.

The machine form has no times, paths or versions: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from policy_sched.model import counted
from policy_sched.report import Document, table

SHOWN: Final = 10
"""Lines of a list that the text shows; the plain data has all of them."""
NO_VALUE: Final = "(no label)"


class NodeFit(msgspec.Struct, frozen=True):
    """Pods of the unit on one node: in free room, and in room that evictions make."""

    node: str
    pods: int
    preempting: int = 0


class Victim(msgspec.Struct, frozen=True, rename="camel"):
    """An evicted pod."""

    pod: str
    node: str
    priority: int
    owner: str = ""
    over_budget: bool = False
    """Whether a disruption budget does not allow it."""


class LabelFit(msgspec.Struct, frozen=True, rename={"open": "openNodes", "reasons": "exhausted"}):
    """The nodes with one value of a label; None: without the label."""

    value: str | None
    nodes: int
    open: int
    """Nodes that could take a pod at first."""
    pods: int
    preempting: int
    reasons: Mapping[str, int]
    """What keeps the next pod from the open nodes, with the number of nodes, the most frequent
    first."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How many replicas of a unit fit."""

    unit: str
    pods: int
    """Pods of one replica."""
    nodes: int
    open: int
    """Nodes that could take a pod of the unit at first."""
    replicas: int
    """Pods that fit without preemption."""
    limited: bool
    """Whether ``replicas`` reached the limit."""
    preempting: int
    """Further replicas that fit with the evictions of ``victims``."""
    preempting_limited: bool
    """Whether ``preempting`` reached the limit."""
    by_node: tuple[NodeFit, ...]
    excluded: Mapping[str, int]
    """Reasons of the nodes that are not open, the most frequent first."""
    exhausted: Mapping[str, int]
    """Reasons of the open nodes when no further replica fits, the most frequent first."""
    message: str
    """kube-scheduler's message about the first replica that does not fit."""
    last_message: str
    """That about the first replica that does not fit with evictions either."""
    evicted: int = 0
    """The number of victims."""
    over_budget: int = 0
    """Victims that a disruption budget does not allow."""
    victims: tuple[Victim, ...] = ()
    label: str = ""
    by_label: tuple[LabelFit, ...] = ()

    def restricted(self, *, nodes: bool, pods: bool) -> Fit:
        """Return the report without the names of nodes, or of pods, that a caller may not read."""
        fit = self
        if not nodes:
            fit = replace(fit, by_node=(), label="", by_label=(), victims=())
        return fit if pods else replace(fit, victims=())

    # Text.

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield from self._head()
        if self.exhausted:
            yield ""
            yield f"What runs out first, on {counted(self.open, 'node')} that could take a pod:"
            yield from _reasons(self.exhausted)
        if self.excluded:
            yield ""
            others = counted(self.nodes - self.open, "node")
            yield f"What keeps every pod from {'the other ' if self.open else ''}{others}:"
            yield from _reasons(self.excluded)
        if self.by_label:
            yield ""
            yield from self._label_lines()
        if self.by_node:
            yield ""
            yield from self._node_lines()
        if self.victims:
            yield ""
            yield from self._victim_lines()

    def _head(self) -> Iterator[str]:
        what = f"{counted(self.replicas, 'replica')} of {self.unit}"
        if self.pods > 1:
            what += f" ({self.pods:,} pods each)"
        some = "at least " if self.limited else ""
        verb = "fits" if self.replicas == 1 else "fit"
        used = sum(fit.pods > 0 for fit in self.by_node)
        where = f" on {used:,} of {counted(self.nodes, 'node')}" if used else ""
        yield f"{some.capitalize()}{what} {verb} now{where}"
        if self.limited:
            yield f"Counting stopped at the limit of {self.replicas:,}; a higher limit counts on"
        if self.message and (self.replicas == 0 or not self.exhausted):
            yield f"  {self.message}"
        if self.preempting:
            yield self._preempting_line()

    def _preempting_line(self) -> str:
        some = "at least " if self.preempting_limited else ""
        verb = "fits" if self.preempting == 1 else "fit"
        text = f"{self.preempting:,} more {verb} by evicting {counted(self.evicted, 'pod')}"
        if self.over_budget:
            text += f", {self.over_budget:,} of them against a PodDisruptionBudget"
        if self.preempting_limited:
            text += "; counting stopped at the limit"
        return f"{some}{text}".capitalize() if some else text

    def _node_lines(self) -> Iterator[str]:
        evicting = self.preempting > 0
        head = ("NODE", "PODS", *(("WITH EVICTIONS",) if evicting else ()))
        rows = [head]
        for fit in self.by_node[:SHOWN]:
            more = (f"{fit.preempting:,}",) if evicting else ()
            rows.append((fit.node, f"{fit.pods:,}", *more))
        yield from table(rows, (1, 2))
        yield from _rest(len(self.by_node), "node")

    def _label_lines(self) -> Iterator[str]:
        evicting = self.preempting > 0
        first = self.label.rpartition("/")[2].upper()
        more: tuple[str, ...] = ("WITH EVICTIONS",) if evicting else ()
        rows = [(first, "NODES", "OPEN", "PODS", *more, "RUNS OUT FIRST")]
        for fit in self.by_label:
            more = (f"{fit.preempting:,}",) if evicting else ()
            why = next(iter(fit.reasons), "-")
            value = NO_VALUE if fit.value is None else fit.value
            rows.append((value, f"{fit.nodes:,}", f"{fit.open:,}", f"{fit.pods:,}", *more, why))
        yield from table(rows, (1, 2, 3, 4) if evicting else (1, 2, 3))

    def _victim_lines(self) -> Iterator[str]:
        owners: dict[tuple[str, int], list[Victim]] = {}
        for victim in self.victims:
            owners.setdefault((victim.owner or victim.pod, victim.priority), []).append(victim)
        rows = [("EVICTED", "PODS", "PRIORITY", "FROM")]
        ordered = sorted(owners.items(), key=lambda item: (-len(item[1]), item[0]))
        for (owner, priority), victims in ordered[:SHOWN]:
            nodes = dict.fromkeys(victim.node for victim in victims)
            where = next(iter(nodes)) if len(nodes) == 1 else counted(len(nodes), "node")
            rows.append((owner, f"{len(victims):,}", f"{priority:,}", where))
        yield from table(rows, (1, 2))
        yield from _rest(len(ordered), "owner")

    # Plain data.

    def document(self) -> Document:
        """Return the result as plain data."""
        plain_data: Document = {
            "unit": self.unit,
            "podsPerReplica": self.pods,
            "replicas": self.replicas,
            "limitReached": self.limited,
            "nodes": self.nodes,
            "openNodes": self.open,
            "exhausted": self.exhausted,
            "excluded": self.excluded,
            "message": self.message,
            "byNode": msgspec.to_builtins(self.by_node),
            "preempting": {
                "replicas": self.preempting,
                "limitReached": self.preempting_limited,
                "message": self.last_message,
                "evicted": self.evicted,
                "overBudget": self.over_budget,
                "victims": msgspec.to_builtins(self.victims),
            },
        }
        if self.label:
            plain_data["label"] = self.label
            plain_data["byLabel"] = msgspec.to_builtins(self.by_label)
        return plain_data


def _reasons(reasons: Mapping[str, int]) -> Iterator[str]:
    width = max(len(f"{count:,}") for count in reasons.values())
    for reason, count in islice(reasons.items(), SHOWN):
        yield f"  {count:>{width},}  {reason}"
    yield from _rest(len(reasons), "reason")


def _rest(count: int, what: str) -> Iterator[str]:
    if count > SHOWN:
        yield f"... and {counted(count - SHOWN, f'more {what}')}"
