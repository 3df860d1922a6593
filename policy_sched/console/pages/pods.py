"""The pods: filtered, grouped by reason, priority or namespace, with their place in the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.console.pages.page import Page, Query, Results, View, node_href, pager, pod_href
from policy_sched.console.sources import UNDECIDED, ClusterSource, Waiting
from policy_sched.model import Pod
from policy_sched.web import Badge, Column, Table, Text, Value

SIZE: Final = 100
"""Pods on a page."""
GROUPS: Final = 50
"""Groups that are shown."""
STATES: Final = ("all", "pending", "placed", "running")
BY: Final = ("", "reason", "priority", "namespace")


HOW: Final = {
    "files": "Pods that wait are decided one after the other, in the order of the queue, as"
    " simulate does.",
    "live": "Each pod that waits is decided alone, on the cluster as it is: none takes room from"
    " another, so not all that find a node here will.",
    "instance": "",
}
"""How the list decides pods that wait, by the kind of source."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod as the list shows it."""

    key: str
    namespace: str
    priority: int
    node: str
    waiting: Waiting | None
    """None for a pod with a node."""

    @property
    def reason(self) -> str:
        """Return why it has no node; "" if it has one, or will have."""
        return "" if self.waiting is None or self.waiting.node else self.waiting.reason

    @property
    def state(self) -> str:
        """Return whether it runs, finds a node, or waits."""
        if self.waiting is None:
            return "running"
        return "placed" if self.waiting.node else "pending"

    def group(self, by: str) -> str:
        """Return the value by which it is grouped."""
        if by == "priority":
            return str(self.priority)
        return self.namespace if by == "namespace" else self.reason


def rows(source: ClusterSource) -> list[PodRow]:
    """Return all pods: those that wait in the order of the queue, then the others by name."""
    waiting = source.waiting()
    order = {uid: turn for turn, uid in enumerate(waiting)}
    by_turn = [(_uid(pod), _row(pod, waiting)) for pod in source.pods()]
    last = len(order)
    by_turn.sort(key=lambda item: (order.get(item[0], last), item[1].key))
    return [row for _, row in by_turn]


def _uid(pod: Pod) -> str:
    meta = pod.metadata
    return meta.uid or f"{meta.namespace or 'default'}/{meta.name}"


def _row(pod: Pod, waiting: Mapping[str, Waiting]) -> PodRow:
    namespace = pod.metadata.namespace or "default"
    queued = None if pod.spec.node_name else waiting.get(_uid(pod))
    key = f"{namespace}/{pod.metadata.name}"
    if queued is None and not pod.spec.node_name:
        queued = Waiting(key, _uid(pod))
    return PodRow(key, namespace, pod.spec.priority or 0, pod.spec.node_name, queued)


def kept(candidates: Iterable[PodRow], query: Query) -> list[PodRow]:
    """Return the pods that the address selects."""
    state, text = query.get("state", "all"), query.get("q").casefold()
    only = {name: query.get(name) for name in BY if name and query.get(name)}
    return [
        row
        for row in candidates
        if (state in ("all", row.state) or (state == "pending" and row.state == "placed"))
        and text in row.key.casefold()
        and all(row.group(name) == value for name, value in only.items())
    ]


def view(source: ClusterSource, query: Query, results: Results) -> View:
    """Return the values of the page."""
    del results
    everything = rows(source)
    chosen = kept(everything, query)
    by = query.get("by")
    start, parts = pager(query, len(chosen), SIZE)
    return {
        "heading": "Pods",
        "lead": _lead(everything, chosen),
        "how": HOW[source.status.kind] if source.waiting() else "",
        "states": STATES,
        "state": query.get("state", "all"),
        "by_choices": BY,
        "by": by,
        "text": query.get("q"),
        "only": [
            (name, query.get(name), query.url(**{name: None, "page": None}))
            for name in BY
            if name and query.get(name)
        ],
        "groups": groups(chosen, by, query) if by in BY[1:] else None,
        "pods": listed(chosen[start : start + SIZE]),
        "pager": parts,
    }


def _lead(everything: Sequence[PodRow], chosen: Sequence[PodRow]) -> str:
    """Return what is listed, in a sentence."""
    states = Counter(row.state for row in chosen)
    parts = [
        f"{states['running']:,} with a node" if states["running"] else "",
        f"{states['placed']:,} that find one" if states["placed"] else "",
        f"{states['pending']:,} without one" if states["pending"] else "",
    ]
    of = "" if len(chosen) == len(everything) else f" of {len(everything):,}"
    noun = "pod" if len(chosen) == 1 and not of else "pods"
    detail = ", ".join(filter(None, parts))
    return f"{len(chosen):,}{of} {noun}" + (f": {detail}" if detail else "")


def groups(chosen: Sequence[PodRow], by: str, query: Query) -> Table:
    """Return how many pods have each value, the most frequent first."""
    chosen = [row for row in chosen if by != "reason" or row.reason]
    counts = Counter(row.group(by) for row in chosen)
    waits = Counter(row.group(by) for row in chosen if row.state == "pending")
    shown: list[Sequence[Value]] = [
        [
            Text(name, query.url(**{by: name, "by": None, "page": None})),
            f"{count:,}",
            f"{waits[name]:,}",
        ]
        for name, count in counts.most_common(GROUPS)
    ]
    columns = [Column(by), Column("pods", number=True), Column("without a node", number=True)]
    left = len(counts) - len(shown)
    return Table(f"Pods by {by}", columns, shown, f"and {left} more" if left > 0 else "")


def listed(chosen: Sequence[PodRow]) -> Table:
    """Return the list of pods."""
    columns = [
        Column("pod"),
        Column("state"),
        Column("turn", number=True, note="Its place among the pods that are ready to be decided"),
        Column("priority", number=True),
        Column("node, or why it has none"),
    ]
    return Table(
        "Pods", columns, [_cells(row) for row in chosen], empty="no pod", caption_hidden=True
    )


def _cells(row: PodRow) -> list[Value]:
    waiting = row.waiting
    turn = "" if waiting is None or waiting.position is None else f"{waiting.position:,}"
    return [Text(row.key, pod_href(row.key)), _state(row), turn, str(row.priority), _where(row)]


def _state(row: PodRow) -> Badge:
    if row.state == "running":
        return Badge("has a node", "good")
    if row.state == "placed":
        return Badge("finds a node", "info")
    position = row.waiting.queue if row.waiting is not None else ""
    if row.reason == UNDECIDED:
        return Badge(position or UNDECIDED)
    return Badge(position if position not in ("", "active") else "no node", "warn")


def _where(row: PodRow) -> Value:
    if row.node:
        return Text(row.node, node_href(row.node))
    if row.waiting is not None and row.waiting.node:
        return Text(row.waiting.node, node_href(row.waiting.node), note="would be chosen")
    return row.reason


PAGE = Page("/pods", "Pods", "pods.html", view, section="/pods")
