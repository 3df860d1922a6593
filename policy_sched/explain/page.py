"""The page of an explanation: the lead, the reasons, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from policy_sched import web
from policy_sched.explain import devices, report
from policy_sched.model import counted

NODES: Final = 20
"""Nodes whose scores are drawn."""
REJECTIONS: Final = 200
"""Nodes whose reasons are listed."""


def no_link(_name: str) -> str:
    """Return no address: in a report a node has no page of its own."""
    return ""


def explanation_page(explanation: report.Explanation) -> web.Summary:
    """Return the report of an explanation."""
    lead, *remarks = (line.strip() for line in report.head_lines(explanation))
    sections = explanation_sections(explanation)
    return web.Summary(explanation.pod, lead, sections, "explain", tone_of(explanation), remarks)


def tone_of(explanation: report.Explanation) -> web.Tone:
    """Return whether a pod has a node: good, bad, or warn if it preempts pods for it."""
    if explanation.best and (explanation.node or not explanation.after_queue):
        return "good"
    return "warn" if explanation.nominated_node else "bad"


def explanation_sections(
    explanation: report.Explanation, node_href: Callable[[str], str] = no_link
) -> list[web.Section]:
    """Return what explains a decision; ``node_href``: the address of a node's page."""
    changes = report.change_lines(explanation)
    sections = [_scores(explanation, node_href)] if explanation.scores else []
    change = (
        [web.Section("What would change it", [web.Prose(changes, points=True)])] if changes else []
    )
    if explanation.scores:
        sections += change
    if explanation.quotas:
        sections.append(web.Section("Quota", [_quota(quota) for quota in explanation.quotas]))
    if explanation.not_victims:
        columns = [web.Column(head) for head in ("Policy", "Pods", "False part of victim")]
        kept: list[list[web.Value]] = [
            [refused.policy, report.some(refused.pods), refused.part]
            for refused in explanation.not_victims
        ]
        sections.append(web.Section("No victims", [web.Table("", columns, kept)]))
    if explanation.placements:
        heads, rows = report.placement_rows(explanation)
        columns = [web.Column(head, number=i > 0) for i, head in enumerate(heads)]
        tried = web.Table("Domains in which the pod's group was tried", columns, rows)
        sections.append(web.Section("Placements", [tried]))
    if explanation.filters and explanation.nodes:
        sections.append(web.Section("Filters", [filters_funnel(explanation)]))
    if explanation.claims is not None:
        sections += _claims(explanation.claims)
    if not explanation.scores:
        sections += change
    if explanation.rated:
        sections.append(
            web.Section(f"Devices of {explanation.best[0]}", list(_rated(explanation.rated)))
        )
    if explanation.rejections:
        sections.append(web.Section("Rejected nodes", [rejections_table(explanation, node_href)]))
    return sections


def _quota(quota: report.QuotaStep) -> web.Table:
    """Return the amounts of a quota, and its borrowers."""
    heads = ("Resource", "Used", "Nominal", "Limit", "Available")
    columns = [web.Column(head, number=i > 0) for i, head in enumerate(heads)]
    rows: list[list[web.Value]] = [[*row] for row in report.quota_rows(quota)]
    note = report.some(report.borrower_texts(quota))
    caption = f"{quota.name}, without the pod"
    return web.Table(caption, columns, rows, f"beyond their own: {note}" * bool(note))


def _scores(explanation: report.Explanation, node_href: Callable[[str], str]) -> web.Section:
    decided: list[web.Block] = (
        [web.Prose(lines)] if (lines := list(report.what_decided(explanation))) else []
    )
    return web.Section("Scores", [*decided, scores_bars(explanation, node_href)])


def scores_bars(
    explanation: report.Explanation, node_href: Callable[[str], str] = no_link
) -> web.Bars:
    """Return a bar for each of the best nodes, with what each plugin adds."""
    shown = explanation.scores[:NODES]
    shares = report.score_shares(shown) if shown else []
    bars = []
    for i, score in enumerate(shown):
        label = web.Text(
            score.node, node_href(score.node), note="best" * (score.node in explanation.best)
        )
        parts = [
            web.BarPart(name, of[i], str(of[i]), name.startswith(report.ALIKE))
            for name, of in shares
        ]
        parts.sort(key=lambda part: not part.quiet)
        bars.append(web.Bar(label, parts, str(score.total)))
    nodes = "The best node" if len(shown) == 1 else f"The best {len(shown)} nodes"
    return web.Bars(f"{nodes}: what each plugin adds, by its weight", bars)


def filters_funnel(explanation: report.Explanation) -> web.Funnel:
    """Return the filters that remove nodes, each of what the earlier ones left."""
    steps = [
        web.FunnelStep(step.name, step.removed, step.alone, step.left, report.reason_texts(step))
        for step in report.removing(explanation)
    ]
    caption = f"{explanation.feasible} of {counted(explanation.nodes, 'node')} pass all filters"
    return web.Funnel(caption, "nodes", explanation.nodes, steps, report.others_text(explanation))


def rejections_table(
    explanation: report.Explanation, node_href: Callable[[str], str] = no_link
) -> web.Table:
    """Return by node the filter that rejected it first."""
    rows: list[list[web.Value]] = [
        [web.Text(node, node_href(node)), plugin, ", ".join(reasons)]
        for node, (plugin, reasons) in sorted(explanation.rejections.items())[:REJECTIONS]
    ]
    more = len(explanation.rejections) - len(rows)
    columns = [web.Column("Node"), web.Column("Filter"), web.Column("Reasons", wide=True)]
    caption = "The first filter that rejects each node"
    return web.Table(caption, columns, rows, f"and {more:,} more" * bool(more), sortable=True)


def _claims(claims: devices.ClaimSteps) -> Iterator[web.Section]:
    """Yield why the devices of nodes do not suffice."""
    blocks: list[web.Block] = []
    if claims.allocated:
        blocks.append(web.Prose([devices.allocated_text(claim) for claim in claims.allocated]))
    columns = [web.Column("Nodes"), web.Column("Devices")]
    blocks += [
        web.Table(devices.request_title(request), columns, devices.request_rows(request))
        for request in claims.requests
        if request.nodes
    ]
    if blocks:
        yield web.Section("Devices", blocks)


def _rated(steps: list[devices.RatedStep]) -> Iterator[web.Table]:
    """Yield what rules say of the devices of the best node, request by request."""
    for request, of_request in groupby(steps, key=lambda step: step.request):
        rows: list[list[web.Value]] = [
            [step.device, web.Badge(str(step), _tone(step))] for step in of_request
        ]
        yield web.Table(f"Request {request}", [web.Column("Device"), web.Column("Rules")], rows)


def _tone(step: devices.RatedStep) -> web.Tone:
    if step.refused_by:
        return "bad"
    return "good" if step.chosen else ""
