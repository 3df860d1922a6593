"""The page of a run: pods without a node and the reasons, allocation, nodes, placements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from policy_sched.model import counted, quantity_text
from policy_sched.simulate.report import (
    NOWHERE,
    Applied,
    NodeUsage,
    PodPlacement,
    Run,
    applied_text,
    by_count,
)
from policy_sched.web import (
    Block,
    Cell,
    CellGroup,
    Cells,
    Column,
    Fact,
    Facts,
    Meter,
    Prose,
    Section,
    Summary,
    Table,
    Text,
    Tone,
    Value,
)

NAMED: Final = 5
"""Pods of a group that are named."""
PODS: Final = 1000
NODES: Final = 100
"""Rows of the tables of pods and nodes."""
FULL: Final = 0.9
"""From this share on a meter warns."""


def run_page(run: Run, usages: Sequence[NodeUsage]) -> Summary:
    """Return the report of a run."""
    tone: Tone = "good" if run.placed == len(run.placements) else "bad"
    sections = []
    lost = [one for one in run.placements if one.node is None]
    if lost:
        sections.append(_without_node(lost, run))
    if run.preemptions:
        sections.append(Section("Preemption", [_preemptions(run)]))
    if run.skipped_extenders:
        sections.append(Section("Extenders that failed and were ignored", [_extenders(run)]))
    if run.allocation:
        sections.append(Section("Allocation", [_allocation(run)]))
    if usages:
        sections.append(Section("Nodes", list(_nodes(usages))))
    if run.policies:
        sections.append(policies_section(run.policies))
    if run.placements:
        sections.append(Section("Placements", [_placements(run.placements)]))
    numbers = _numbers(run)
    return Summary(run.placed_text(), _lead(lost), sections, "simulate", tone, facts=numbers)


def _lead(lost: Sequence[PodPlacement]) -> str:
    """Return the reason that keeps most pods from a node."""
    if not lost:
        return "Every pending pod has a node."
    reason, pods = grouped(lost)[0]
    if len(pods) == len(lost):
        have = "The pod that has no node has" if len(lost) == 1 else "All pods without a node have"
        return f"{have} one reason on most nodes: {reason}"
    return f"Most often a pod has no node for this reason: {reason}"


def grouped(lost: Sequence[PodPlacement]) -> list[tuple[str, list[PodPlacement]]]:
    """Return pods without a node by the reason that most nodes have, the largest group first."""
    groups: defaultdict[str, list[PodPlacement]] = defaultdict(list)
    for one in lost:
        groups[one.reasons[0] if one.reasons else one.message].append(one)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def _numbers(run: Run) -> Facts:
    total = len(run.placements)
    nowhere = str(total - run.placed)
    facts = [
        Fact("Pods placed", f"{run.placed:,}", f"of {total:,}"),
        Fact("Without a node", Text(nowhere, tone="bad") if run.placed < total else nowhere),
        Fact("Nodes", f"{run.nodes:,}"),
        Fact("Preemptions", f"{len(run.preemptions):,}"),
    ]
    facts += [
        Fact(f"{one.resource} requested", f"{one.percent:.1f} %", " of ".join(one.amounts))
        for one in run.allocation
        if one.resource != "pods"
    ][:4]
    return Facts(facts, big=True)


def _without_node(lost: Sequence[PodPlacement], run: Run) -> Section:
    groups: list[list[Value]] = []
    for reason, pods in grouped(lost):
        more = len(pods) - NAMED
        names = ", ".join(one.pod for one in pods[:NAMED])
        groups.append([reason, str(len(pods)), names + f" and {more:,} more" * (more > 0)])
    first = Table(
        "By the reason that most nodes have",
        [Column("Reason"), Column("Pods", number=True), Column("Which", wide=True)],
        groups,
    )
    reasons: list[list[Value]] = [
        [reason, str(count)] for reason, count in by_count(run.unschedulable_by)
    ]
    every = Table(
        "By every reason; a pod counts for each of its reasons",
        [Column("Reason"), Column("Pods", number=True)],
        reasons,
    )
    rows: list[list[Value]] = [[one.pod, one.cpu, one.memory, one.message] for one in lost[:PODS]]
    heads = [
        Column("Pod"),
        Column("cpu", True),
        Column("memory", True),
        Column("Message", wide=True),
    ]
    messages = Table("Messages", heads, rows, _more(len(lost), PODS), sortable=True)
    return Section("Pods without a node", [first, every, messages])


def _preemptions(run: Run) -> Table:
    rows: list[list[Value]] = [
        [one.pod, one.node, ", ".join(one.victims)] for one in run.preemptions[:PODS]
    ]
    columns = [Column("Pod"), Column("Nominated to"), Column("Victims", wide=True)]
    return Table("Pods that evict others", columns, rows, _more(len(run.preemptions), PODS))


def _extenders(run: Run) -> Table:
    rows: list[list[Value]] = [
        [name, str(count), error] for name, (count, error) in run.skipped_extenders.items()
    ]
    columns = [Column("Extender"), Column("Failures", number=True), Column("The last one")]
    return Table("Pods were decided without them", columns, rows)


def _allocation(run: Run) -> Table:
    rows: list[list[Value]] = []
    for one in run.allocation:
        share = one.percent / 100
        meter = Meter(share, f"{one.percent:.1f} %", "warn" if share >= FULL else "")
        rows.append([one.resource, *one.amounts, meter])
    columns = [
        Column("Resource"), Column("Requested", True), Column("Allocatable", True), Column("Share"),
    ]  # fmt: skip
    return Table("Over all nodes, with the pods that were placed", columns, rows)


def _nodes(usages: Sequence[NodeUsage]) -> Iterator[Block]:
    """Yield a cell for each node, by the resource that is used most, and the fullest nodes."""
    names = list(dict.fromkeys(name for one in usages for name in one.amounts))
    cells = [
        Cell(one.node, max(_shares(one), default=None), _usage_text(one, names)) for one in usages
    ]
    caption = "The share of the scarcest resource that is requested"
    yield Cells(caption, [CellGroup("", cells)], unknown="nothing allocatable")
    fullest = sorted(usages, key=lambda one: (-max(_shares(one), default=0.0), one.node))
    rows: list[list[Value]] = [
        [one.node, str(one.pods), *(_meter(one.share(name)) for name in names)]
        for one in fullest[:NODES]
    ]
    columns = [Column("Node"), Column("Pods", number=True), *map(Column, names)]
    more = _more(len(usages), NODES)
    yield Table("The fullest nodes first", columns, rows, more, sortable=True)


def _shares(one: NodeUsage) -> list[float]:
    return [share for name in one.amounts if (share := one.share(name)) is not None]


def _meter(share: float | None) -> Value:
    if share is None:
        return Text(NOWHERE, tone="dim")
    return Meter(share, f"{100 * share:.1f} %", "warn" if share >= FULL else "")


def _usage_text(one: NodeUsage, names: Sequence[str]) -> str:
    """Return what is requested of a node: in the tooltip of its cell."""
    parts = [counted(one.pods, "pod")]
    for name in names:
        if name in one.amounts:
            used, given = (quantity_text(name, amount) for amount in one.amounts[name])
            parts.append(f"{name} {used} of {given}")
    return ", ".join(parts)


def policies_section(policies: Sequence[Applied], title: str = "Policies") -> Section:
    """Return the number of pods and nodes that each policy applied to."""
    several = len({one.profile for one in policies}) > 1
    texts = [
        Text(f"{one.policy} in profile {one.profile}" if several else one.policy,
             note=applied_text(one), tone="bad" if one.failed else "")
        for one in policies
    ]  # fmt: skip
    return Section(title, [Prose(texts, points=True)])


def _placements(placements: Sequence[PodPlacement]) -> Table:
    rows: list[list[Value]] = []
    for one in placements[:PODS]:
        node: Value = one.node if one.node is not None else Text(NOWHERE, tone="bad")
        score = NOWHERE if one.score is None else str(one.score)
        rows.append([one.pod, node, str(one.feasible), score, one.cpu, one.memory])
    columns = [
        Column("Pod"), Column("Node"), Column("Feasible nodes", True), Column("Score", True),
        Column("cpu", True), Column("memory", True),
    ]  # fmt: skip
    more = _more(len(placements), PODS)
    return Table("In the order of the input", columns, rows, more, sortable=True)


def _more(total: int, shown: int) -> str:
    """Return what a table leaves out; JSON has all of it."""
    return f"and {total - shown:,} more, which --output json has" if total > shown else ""
