"""The overview: what needs attention, the cluster in numbers, nodes as cells, queues over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from policy_sched import web
from policy_sched.console.pages.page import Page, Query, Results, View, address, node_href, pod_href
from policy_sched.console.sources import ClusterSource, Waiting, grouped
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.explain import NodeValue, evaluated
from policy_sched.language.stdlib import ANY, value_text
from policy_sched.language.values import types
from policy_sched.model import HOSTNAME, ZONE, Node, counted, quantity_text
from policy_sched.scheduler import Scheduler
from policy_sched.simulate import Allocation, allocations, resource_names
from policy_sched.web import DiagnosticView

REASONS: Final = 12
"""Groups of pending pods that are shown."""
PROBLEMS: Final = 5
"""Problems of files that are shown."""
RESOURCES: Final = 5
"""Resources in the summary."""
FEWEST, MOST = 2, 60
"""How many values a label has by which nodes are grouped."""
NONE: Final = "none"
AS_IT_IS: Final = "now"
SIMULATED: Final = "simulated"
"""The clusters whose nodes are drawn: as it is, and with what the simulation placed."""


def view(source: ClusterSource, query: Query, results: Results) -> View:
    """Return the values of the page."""
    del results
    waiting = list(source.waiting().values())
    after = source.simulated if query.get("cluster") == SIMULATED else None
    colouring = coloured(after or source.scheduler, query)
    names = labels(source)
    label = query.get("by") or (ZONE if ZONE in names else NONE)
    return {
        "heading": "Overview",
        "sections": [attention(source, waiting), summary(source, waiting)],
        "cells": cells(source, label, colouring, ", as simulated" if after else ""),
        "clusters": [AS_IT_IS, SIMULATED] if source.simulated is not None else [],
        "cluster": SIMULATED if after else AS_IT_IS,
        "colouring": colouring,
        "colours": [*colours(source.scheduler), EXPRESSION],
        "labels": [NONE, *names],
        "label": label,
        "charts": charts(source),
    }


def attention(source: ClusterSource, waiting: Sequence[Waiting]) -> web.Section:
    """Return what needs a look: problems of files, and pods without a node by reason."""
    problems = source.problems()
    blocks: list[web.Block] = [web.DiagnosticView.of(problem) for problem in problems[:PROBLEMS]]
    if len(problems) > PROBLEMS:
        blocks.append(web.Prose([f"and {counted(len(problems) - PROBLEMS, 'more problem')}"]))
    groups = grouped(pod for pod in waiting if pod.message and not pod.node)
    rows: list[Sequence[web.Value]] = [
        [
            web.Text(reason, address("/pods", state="pending", reason=reason)),
            f"{len(pods):,}",
            web.Text(pods[0].key, pod_href(pods[0].key)),
        ]
        for reason, pods in groups[:REASONS]
    ]
    if rows:
        columns = [web.Column("Reason"), web.Column("Pods", number=True), web.Column("One of them")]
        more = f"and {len(groups) - REASONS} more reasons" if len(groups) > REASONS else ""
        caption = "Pods without a node, by the reason that most nodes have"
        blocks.append(web.Table(caption, columns, rows, more))
    if not blocks:
        blocks.append(web.Prose([_no_problems(waiting)]))
    return web.Section("Needs attention", blocks)


def _no_problems(waiting: Sequence[Waiting]) -> str:
    """Return a sentence in place of what needs attention."""
    if any(not pod.node for pod in waiting):
        return "Nothing so far: no decided pod is without a node, and no file has a problem."
    return "Nothing: every pod has a node, and no file has a problem."


def summary(source: ClusterSource, waiting: Sequence[Waiting]) -> web.Section:
    """Return the cluster and its scheduler in numbers."""
    table = source.scheduler.cache.nodes
    status = source.store.status
    placed = sum(bool(waiting_pod.node) for waiting_pod in waiting)
    alone = ", each decided alone" if source.status.kind == "live" else ""
    note = f"{placed:,} of them find a node{alone}" if placed else ""
    running = sum(bool(pod.spec.node_name) for pod in source.pods())
    facts = [
        web.Fact("nodes", web.Text(f"{table.live_count:,}", "/nodes")),
        web.Fact("pods with a node", web.Text(f"{running:,}", address("/pods", state="running"))),
        web.Fact(
            "pods without one",
            web.Text(f"{len(waiting):,}", address("/pods", state="pending")),
            note,
        ),
        web.Fact("policies", f"generation {status.generation}", status.content_hash[:12]),
    ]
    rate = source.history.rate()
    if rate is not None:
        facts.insert(3, web.Fact("decisions per second", f"{rate:,.1f}", "in the last 10 seconds"))
    lengths = ", ".join(f"{name} {count:,}" for name, count in source.queue_lengths().items())
    facts.append(web.Fact("queue", web.Text(f"{sum(source.queue_lengths().values()):,}"), lengths))
    use = [
        web.Fact(
            allocation.resource,
            web.Meter(allocation.percent / 100, f"{allocation.percent:.1f} %"),
            _amounts(allocation),
        )
        for allocation in list(allocations(source.scheduler))[:RESOURCES]
    ]
    return web.Section("Cluster", [web.Facts(facts, big=True), *([web.Facts(use)] if use else [])])


def _amounts(allocation: Allocation) -> str:
    """Return how much of a resource is requested, as a text."""
    resource = allocation.resource
    requested = quantity_text(resource, allocation.requested)
    return f"{requested} of {quantity_text(resource, allocation.allocatable)}"


def labels(source: ClusterSource) -> list[str]:
    """Return the labels by which nodes can be grouped: few values, and more than one."""
    values: dict[str, set[str]] = {}
    for node in source.scheduler.cache.nodes.nodes:
        for name, value in node.metadata.labels.items() if node is not None else ():
            values.setdefault(name, set()).add(value)
    return sorted(n for n, v in values.items() if FEWEST <= len(v) <= MOST and n != HOSTNAME)


def cells(source: ClusterSource, label: str, colouring: Colouring, state: str = "") -> web.Cells:
    """Return one cell for each node, in groups of a label; ``state`` follows the caption."""
    groups: dict[str, list[Node]] = {}
    for node in source.scheduler.cache.nodes.nodes:
        if node is not None:
            name = "" if label == NONE else node.metadata.labels.get(label, "(without the label)")
            groups.setdefault(name, []).append(node)
    cell_groups = []
    for name in sorted(groups):
        names = [node.metadata.name for node in groups[name]]
        text = ", ".join(filter(None, [counted(len(names), "node"), colouring.mean(names)]))
        fields = [_cell(node, colouring) for node in groups[name]]
        cell_groups.append(web.CellGroup(name, fields, text))
    unknown = Counter(share is None for share, _ in colouring.shares.values())[True]
    caption = f"{colouring.caption}{state}: one cell for each node"
    return web.Cells(
        caption, cell_groups, colouring.low, colouring.high, "no value" if unknown else ""
    )


def _cell(node: Node, colouring: Colouring) -> web.Cell:
    share, text = colouring.of(node.metadata.name)
    remarks = _remarks(node)
    shown = f"{text}; {remarks}" if remarks else text
    return web.Cell(
        node.metadata.name,
        share,
        shown,
        node_href(node.metadata.name),
        "bad" if remarks.startswith("not ready") else "warn" if remarks else "",
    )


def _remarks(node: Node) -> str:
    """Return what keeps all pods from a node."""
    ready = node.ready or not any(condition.type == "Ready" for condition in node.status.conditions)
    remarks = [] if ready else ["not ready"]
    return ", ".join([*remarks, *["unschedulable"] * bool(node.spec.unschedulable)])


def charts(source: ClusterSource) -> list[web.Chart]:
    """Return the lengths of queues and the decisions per second over time."""
    samples = list(source.history.samples)
    if len(samples) < 2:
        return []
    last = samples[-1].time
    x = [(sample.time - last) / 1e9 for sample in samples]
    names = list(dict.fromkeys(name for sample in samples for name in sample.lengths))
    queues = [web.Series(name, [float(s.lengths.get(name, 0)) for s in samples]) for name in names]
    rates = [(time - last) / 1e9 for time, _ in source.history.rates()]
    decisions = web.Series("decisions", [rate for _, rate in source.history.rates()])
    until = datetime.fromtimestamp(last / 1e9, UTC).strftime("until %H:%M:%S UTC")
    axis = "seconds before now"
    return [
        web.Chart("queues", "Pods in the queue", axis, x, queues, unit="pods", note=until),
        web.Chart("decisions", "Decisions per second", axis, rates, [decisions], note=until),
    ]


PAGE = Page("/", "Overview", "overview.html", view, section="/")


EXPRESSION: Final = "expression"
"""The choice of an expression, beside the names of resources."""
FIRST: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Colouring:
    """By node a share from 0 to 1, or None, and a text; and the ends of the scale."""

    choice: str
    """A resource, or "expression"."""
    low: str = "0 %"
    high: str = "100 %"
    expression: str = ""
    """Text of the expression."""
    shares: Mapping[str, tuple[float | None, str]] = field(default_factory=dict)
    problems: Sequence[DiagnosticView] = ()
    """Problems of the expression."""
    failure: str = ""
    means: bool = True
    """Whether a mean of shares says anything."""

    @property
    def caption(self) -> str:
        """Return what the colours mean."""
        return self.expression if self.choice == EXPRESSION else f"{self.choice} requested"

    def of(self, node: str) -> tuple[float | None, str]:
        """Return the share and the text of a node."""
        return self.shares.get(node, (None, ""))

    def mean(self, nodes: Sequence[str]) -> str:
        """Return the mean share of nodes as a text."""
        shares = [share for share, _ in map(self.of, nodes) if share is not None]
        return (
            f"{100 * sum(shares) / len(shares):.0f} % on average" if shares and self.means else ""
        )


def colours(scheduler: Scheduler) -> list[str]:
    """Return the resources that nodes have."""
    return resource_names(scheduler.cache.nodes)


def coloured(scheduler: Scheduler, query: Query) -> Colouring:
    """Return the colours that the address names."""
    choice, expression = query.get("colour", FIRST), query.get("expression")
    if choice == EXPRESSION and expression:
        return _by_expression(scheduler, expression)
    if choice == EXPRESSION:
        return Colouring(EXPRESSION, failure="Write an expression, such as node.free.cpu.")
    return _by_resource(scheduler, choice)


def _by_resource(scheduler: Scheduler, resource: str) -> Colouring:
    """Return the requested share of a resource of each node."""
    table = scheduler.cache.nodes
    whole = table.lookup(("allocatable", resource)).values
    used = table.lookup(("podCount",) if resource == "pods" else ("requested", resource)).values
    by_node: dict[str, tuple[float | None, str]] = {}
    for name, row in table.row_of.items():
        most, now = whole.item(row), used.item(row)
        text = f"{quantity_text(resource, now)} of {quantity_text(resource, most)} {resource}"
        by_node[name] = (now / most if most else None, text if most else f"no {resource}")
    return Colouring(resource, shares=by_node)


def _text(value: NodeValue, kind: types.Type) -> str:
    return f"error {value.code}: {value.error}" if value.code else value_text(value.value, kind)


def _by_expression(scheduler: Scheduler, text: str) -> Colouring:
    """Return the values of an expression, from the smallest to the largest."""
    try:
        result = evaluated(text, ANY, None, scheduler.cache, None, scheduler.handle.now())
    except PolicyError as error:
        problems = [DiagnosticView.of(problem) for problem in error.diagnostics]
        return Colouring(EXPRESSION, expression=text, problems=problems)
    except PolicySchedError as error:
        return Colouring(EXPRESSION, expression=text, failure=str(error))
    values: dict[str, Any] = {value.node: value.value for value in result.values if not value.code}
    texts = {value.node: _text(value, result.type) for value in result.values}
    if set(texts) == {""}:  # it reads no node
        names = scheduler.cache.nodes.row_of
        values, texts = dict.fromkeys(names, values.get("")), dict.fromkeys(names, texts[""])
    numbers = {node: float(v) for node, v in values.items() if isinstance(v, bool | int | float)}
    low, high = min(numbers.values(), default=0.0), max(numbers.values(), default=0.0)
    width = high - low
    shares = {
        node: ((numbers[node] - low) / width if width and node in numbers else None, text)
        for node, text in texts.items()
    }
    if not width:
        shares = {n: (0.0 if n in numbers else None, text) for n, (_, text) in shares.items()}
    ends = {value_number: texts[node] for node, value_number in numbers.items()}
    return Colouring(
        EXPRESSION, ends.get(low, "low"), ends.get(high, "high"), text, shares, means=False
    )
