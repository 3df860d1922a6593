"""The page of an explanation: the lead, the reasons, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from policy_sched.explain.devices import (
    ClaimSteps,
    RatedStep,
    allocated_text,
    request_rows,
    request_title,
)
from policy_sched.explain.report import (
    ALIKE,
    Explanation,
    change_lines,
    head_lines,
    others_text,
    placement_rows,
    reason_texts,
    removing,
    score_shares,
    what_decided,
)
from policy_sched.model import counted
from policy_sched.web import (
    Badge,
    Bar,
    Bars,
    Block,
    Column,
    Funnel,
    FunnelStep,
    Part,
    Prose,
    Section,
    Summary,
    Table,
    Text,
    Tone,
    Value,
)

NODES: Final = 20
"""Nodes whose scores are drawn."""
REJECTIONS: Final = 200
"""Nodes whose reasons are listed."""


def no_link(_name: str) -> str:
    """Return no address: in a report a node has no page of its own."""
    return ""


def explanation_page(found: Explanation) -> Summary:
    """Return the report of an explanation."""
    lead, *remarks = (line.strip() for line in head_lines(found))
    sections = explanation_sections(found)
    return Summary(found.pod, lead, sections, "explain", tone_of(found), remarks)


def tone_of(found: Explanation) -> Tone:
    """Return whether a pod has a node: good, bad, or warn if it preempts pods for it."""
    if found.best and (found.node or not found.after_queue):
        return "good"
    return "warn" if found.nominated_node else "bad"


def explanation_sections(
    found: Explanation, node_href: Callable[[str], str] = no_link
) -> list[Section]:
    """Return what explains a decision; ``node_href``: the address of a node's page."""
    changes = change_lines(found)
    sections = [_scores(found, node_href)] if found.scores else []
    change = [Section("What would change it", [Prose(changes, points=True)])] if changes else []
    if found.scores:
        sections += change
    if found.placements:
        heads, rows = placement_rows(found)
        columns = [Column(head, number=i > 0) for i, head in enumerate(heads)]
        tried = Table("Domains in which the pod's group was tried", columns, rows)
        sections.append(Section("Placements", [tried]))
    if found.filters and found.nodes:
        sections.append(Section("Filters", [filters_funnel(found)]))
    if found.claims is not None:
        sections += _claims(found.claims)
    if not found.scores:
        sections += change
    if found.rated:
        sections.append(Section(f"Devices of {found.best[0]}", list(_rated(found.rated))))
    if found.rejections:
        sections.append(Section("Rejected nodes", [rejections_table(found, node_href)]))
    return sections


def _scores(found: Explanation, node_href: Callable[[str], str]) -> Section:
    decided: list[Block] = [Prose(lines)] if (lines := list(what_decided(found))) else []
    return Section("Scores", [*decided, scores_bars(found, node_href)])


def scores_bars(found: Explanation, node_href: Callable[[str], str] = no_link) -> Bars:
    """Return a bar for each of the best nodes, with what each plugin adds."""
    shown = found.scores[:NODES]
    shares = score_shares(shown) if shown else []
    bars = []
    for i, score in enumerate(shown):
        label = Text(score.node, node_href(score.node), note="best" * (score.node in found.best))
        parts = [Part(name, of[i], str(of[i]), name.startswith(ALIKE)) for name, of in shares]
        parts.sort(key=lambda part: not part.quiet)
        bars.append(Bar(label, parts, str(score.total)))
    nodes = "The best node" if len(shown) == 1 else f"The best {len(shown)} nodes"
    return Bars(f"{nodes}: what each plugin adds, by its weight", bars)


def filters_funnel(found: Explanation) -> Funnel:
    """Return the filters that remove nodes, each of what the earlier ones left."""
    steps = [
        FunnelStep(step.name, step.removed, step.alone, step.left, reason_texts(step))
        for step in removing(found)
    ]
    caption = f"{found.feasible} of {counted(found.nodes, 'node')} pass all filters"
    return Funnel(caption, "nodes", found.nodes, steps, others_text(found))


def rejections_table(found: Explanation, node_href: Callable[[str], str] = no_link) -> Table:
    """Return by node the filter that rejected it first."""
    rows: list[list[Value]] = [
        [Text(node, node_href(node)), plugin, ", ".join(reasons)]
        for node, (plugin, reasons) in sorted(found.rejections.items())[:REJECTIONS]
    ]
    more = len(found.rejections) - len(rows)
    columns = [Column("Node"), Column("Filter"), Column("Reasons", wide=True)]
    caption = "The first filter that rejects each node"
    return Table(caption, columns, rows, f"and {more:,} more" * bool(more), sortable=True)


def _claims(claims: ClaimSteps) -> Iterator[Section]:
    """Yield why the devices of nodes do not suffice."""
    blocks: list[Block] = []
    if claims.allocated:
        blocks.append(Prose([allocated_text(one) for one in claims.allocated]))
    columns = [Column("Nodes"), Column("Devices")]
    blocks += [
        Table(request_title(request), columns, request_rows(request))
        for request in claims.requests
        if request.nodes
    ]
    if blocks:
        yield Section("Devices", blocks)


def _rated(steps: list[RatedStep]) -> Iterator[Table]:
    """Yield what rules say of the devices of the best node, request by request."""
    for request, of_request in groupby(steps, key=lambda one: one.request):
        rows: list[list[Value]] = [[one.device, Badge(str(one), _tone(one))] for one in of_request]
        yield Table(f"Request {request}", [Column("Device"), Column("Rules")], rows)


def _tone(one: RatedStep) -> Tone:
    if one.refused_by:
        return "bad"
    return "good" if one.chosen else ""
