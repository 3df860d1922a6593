"""The nodes: filtered by name and labels, with their use, pods and taints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.cluster.tables import NodeTable
from policy_sched.console.pages import page
from policy_sched.console.sources import ClusterSource
from policy_sched.model import Node, Taint, counted, quantity_text
from policy_sched.simulate import resource_names
from policy_sched.web import Badge, Column, Meter, Table, Text, Value

SIZE: Final = 100
"""Nodes on a page."""
RESOURCES: Final = 5
"""Resources that have a column."""
TAINTS: Final = 2
"""Taints that are shown."""
_NO_COLUMN: Final = frozenset({"pods", "ephemeral-storage"})


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page."""
    del results
    table = source.scheduler.cache.nodes
    resources = [n for n in resource_names(table) if n not in _NO_COLUMN][:RESOURCES]
    names = kept(table, query)
    order = query.get("sort", "name")
    names.sort(key=lambda name: (-share(table, order, name)[0] if order != "name" else 0, name))
    start, parts = page.pager(query, len(names), SIZE)
    rows = [cells(table, name, resources) for name in names[start : start + SIZE]]
    columns = [
        Column("node"),
        Column("pods", number=True),
        *(Column(name) for name in resources),
        Column("remarks"),
    ]
    of = "" if len(names) == table.live_count else f" of {table.live_count:,}"
    noun = "node" if len(names) == 1 and not of else "nodes"
    return {
        "heading": "Nodes",
        "lead": f"{len(names):,}{of} {noun}",
        "text": query.get("q"),
        "label": query.get("label"),
        "orders": ["name", "pods", *resources],
        "order": order,
        "nodes": Table("Nodes", columns, rows, empty="no node", caption_hidden=True),
        "pager": parts,
    }


def kept(table: NodeTable, query: page.Query) -> list[str]:
    """Return the names of the nodes that the address selects."""
    text = query.get("q").casefold()
    name, equals, value = query.get("label").partition("=")
    return [
        node.metadata.name
        for node in table.nodes
        if node is not None
        and text in node.metadata.name.casefold()
        and (not name or name in node.metadata.labels)
        and (not equals or node.metadata.labels.get(name) == value)
    ]


def share(table: NodeTable, resource: str, node: str) -> tuple[float, int, int]:
    """Return the requested share of a resource of a node, the requested and the whole amount."""
    row = table.row_of[node]
    key = ("podCount",) if resource == "pods" else ("requested", resource)
    used: int = table.lookup(key).values.item(row)
    whole: int = table.lookup(("allocatable", resource)).values.item(row)
    return (used / whole if whole else 0.0), used, whole


def meter(table: NodeTable, resource: str, node: str) -> Value:
    """Return the use of a resource of a node as a short bar."""
    part, used, whole = share(table, resource, node)
    if not whole:
        return Text("-", tone="dim")
    text = f"{quantity_text(resource, used)} / {quantity_text(resource, whole)}"
    return Meter(part, text, "warn" if part > 1 else "")


def cells(table: NodeTable, name: str, resources: Sequence[str]) -> list[Value]:
    """Return the row of a node."""
    row = table.row_of[name]
    node = table.nodes[row]
    assert node is not None, "row_of has live rows only"
    return [
        Text(name, page.node_href(name)),
        str(len(table.pods_on(row))),
        *(meter(table, resource, name) for resource in resources),
        remark(node),
    ]


def remark(node: Node) -> Value:
    """Return what keeps pods from a node."""
    if not node.ready and any(condition.type == "Ready" for condition in node.status.conditions):
        return Badge("not ready", "bad")
    if node.spec.unschedulable:
        return Badge("unschedulable", "warn")
    taints = node.spec.taints
    if not taints:
        return ""
    text = ", ".join(map(taint_text, taints[:TAINTS]))
    more = len(taints) - TAINTS
    return Text(text, note=f"and {counted(more, 'more taint')}" if more > 0 else "")


def taint_text(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


PAGE = page.Page("/nodes", "Nodes", "nodes.html", view, section="/nodes")
