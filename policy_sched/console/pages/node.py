"""A node: its use, pods, taints and devices, and which pods that wait it would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.console.pages import page
from policy_sched.console.pages.nodes import meter, remark, taint_text
from policy_sched.console.sources import ClusterSource
from policy_sched.errors import PluginError
from policy_sched.model import Node, Pod, PodInfo, ResourceClaim, ResourceSlice, quantity_text
from policy_sched.scheduler import Scheduler, first_objection
from policy_sched.simulate import resource_names
from policy_sched.web import Badge, Column, Fact, Facts, Pager, Section, Table, Text, Value

SIZE: Final = 50
"""Pods that wait on a page."""
PODS: Final = 200
"""Pods of the node that are shown."""
DEVICES: Final = 200
"""Devices that are shown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the node would take a pod: a score, or the plugin that rejects it, and why."""

    pod: str
    score: int | None
    plugin: str = ""
    reasons: tuple[str, ...] = ()


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page."""
    del results
    name = query.arguments["name"]
    table = source.scheduler.cache.nodes
    row = table.row_of.get(name)
    node = None if row is None else table.nodes[row]
    if row is None or node is None:
        raise page.Missing(f"there is no node {name}")
    pods = list(table.pods_on(row).values())
    pending, parts = _waiting(source, query)
    return {
        "heading": name,
        "lead": _lead(node, pods),
        "remark": remark(node),
        "sections": [
            _use(source, node),
            *_fits(verdicts(source.scheduler, pending, name), parts.total),
            _pods(pods),
            *_devices(source, name),
            _about(node),
        ],
        "pager": parts if parts.total > SIZE else None,
    }


def _lead(node: Node, pods: Sequence[PodInfo]) -> str:
    """Return the state of a node in a sentence."""
    shown_plugins = any(condition.type == "Ready" for condition in node.status.conditions)
    state = "ready" if node.ready else "not ready" if shown_plugins else "of unknown readiness"
    closed = ", and takes no new pods (unschedulable)" if node.spec.unschedulable else ""
    return f"It is {state}{closed}. {len(pods):,} {'pod' if len(pods) == 1 else 'pods'} on it."


def _waiting(source: ClusterSource, query: page.Query) -> tuple[list[PodInfo], Pager]:
    """Return the pods without a node that are shown."""
    order = {uid: index for index, uid in enumerate(source.waiting())}
    waiting: list[tuple[int, Pod]] = []
    for pod in source.pods():
        uid = pod.metadata.uid or f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        if uid in order:
            waiting.append((order[uid], pod))
    waiting.sort(key=lambda item: item[0])
    start, parts = page.pager(query, len(waiting), SIZE)
    return [PodInfo.of(pod) for _, pod in waiting[start : start + SIZE]], parts


def verdicts(scheduler: Scheduler, pods: Iterable[PodInfo], node: str) -> list[Verdict]:
    """Return for each pod whether a node would take it, and what keeps it out."""
    return [_verdict(scheduler, pod, node) for pod in pods]


def _verdict(scheduler: Scheduler, pod: PodInfo, node: str) -> Verdict:
    profile = scheduler.profiles.get(pod.scheduler_name)
    if profile is None:
        return Verdict(pod.key, None, "", (f'no profile has schedulerName "{pod.scheduler_name}"',))
    gate = first_objection(profile.runner, pod)
    if not gate.ok:
        return Verdict(pod.key, None, gate.plugin, gate.reasons)
    try:
        evaluation = profile.evaluator.evaluate(pod)
    except PluginError as error:
        return Verdict(pod.key, None, "", (str(error),))
    if evaluation.rejection is not None:
        return Verdict(pod.key, None, evaluation.rejection.plugin, evaluation.rejection.reasons)
    row = scheduler.cache.nodes.row_of[node]
    filtering, scoring = evaluation.filtering, evaluation.scoring
    if filtering.first[row]:
        status = filtering.statuses()[row]
        return Verdict(pod.key, None, status.plugin, status.reasons)
    return Verdict(pod.key, 0 if scoring is None else scoring.total.item(row))


def _fits(verdicts: Sequence[Verdict], total: int) -> list[Section]:
    """Return the waiting pods that fit on the node, and the rejecting filter of each of the
    others."""
    if not verdicts:
        return []
    taken = sum(verdict.score is not None for verdict in verdicts)
    blockers = Counter(verdict.plugin or "other" for verdict in verdicts if verdict.score is None)
    words = ", ".join(f"{name} keeps out {count}" for name, count in blockers.most_common())
    rows: list[Sequence[Value]] = [
        [
            Text(verdict.pod, page.pod_href(verdict.pod)),
            Badge("fits", "good")
            if verdict.score is not None
            else Badge(verdict.plugin or "error", "warn"),
            ", ".join(verdict.reasons),
            "" if verdict.score is None else f"{verdict.score:,}",
        ]
        for verdict in verdicts
    ]
    columns = [Column("pod"), Column("filter"), Column("why"), Column("score", number=True)]
    of = f"{len(verdicts):,} of {total:,}" if total > len(verdicts) else f"{total:,}"
    note = f"It would take {taken:,} of these now, each by itself" + (
        f"; {words}." if words else "."
    )
    return [Section("Pods that wait", [Table(f"{of} pods without a node", columns, rows)], note)]


def _use(source: ClusterSource, node: Node) -> Section:
    """Return the use of each resource that the node has."""
    table, name = source.scheduler.cache.nodes, node.metadata.name
    names = [n for n in resource_names(table) if n in node.status.allocatable]
    return Section(
        "Use", [Facts([Fact(resource, meter(table, resource, name)) for resource in names])]
    )


def _pods(pods: Sequence[PodInfo]) -> Section:
    """Return the pods on the node, those with the highest priority first."""
    ordered = sorted(pods, key=lambda pod: (-pod.priority, pod.key))
    rows: list[Sequence[Value]] = [
        [
            Text(pod.key, page.pod_href(pod.key)),
            str(pod.priority),
            ", ".join(f"{k} {quantity_text(k, v)}" for k, v in pod.requests.items()),
            "terminating" if pod.terminating else "",
        ]
        for pod in ordered[:PODS]
    ]
    columns = [Column("pod"), Column("priority", number=True), Column("requests"), Column("")]
    more = f"and {len(pods) - PODS:,} more" if len(pods) > PODS else ""
    table = Table("Pods on it", columns, rows, more, empty="no pod", caption_hidden=True)
    return Section("Pods on it", [table])


def _devices(source: ClusterSource, node: str) -> list[Section]:
    """Return the devices that slices publish for the node, and the claims that have them."""
    objects = source.scheduler.handle.objects
    held: dict[tuple[str, str, str], str] = {}
    for claim in objects.of(ResourceClaim):
        allocation = claim.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            key = f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"
            held[result.driver, result.pool, result.device] = key
    rows: list[Sequence[Value]] = []
    slices = [obj.spec for obj in objects.of(ResourceSlice) if obj.spec.node_name == node]
    for part in slices:
        for device in part.devices:
            owner = held.get((part.driver, part.pool.name, device.name), "")
            state: Value = Badge(owner, "info") if owner else Badge("free", "good")
            rows.append([device.name, part.driver, part.pool.name, state])
    if not rows:
        return []
    columns = [Column("device"), Column("driver"), Column("pool"), Column("claim")]
    more = f"and {len(rows) - DEVICES:,} more" if len(rows) > DEVICES else ""
    free = sum(row[3].text == "free" for row in rows if isinstance(row[3], Badge))
    note = f"{free:,} of {len(rows):,} are free."
    return [Section("Devices", [Table("Devices", columns, rows[:DEVICES], more)], note)]


def _about(node: Node) -> Section:
    """Return taints, labels and conditions."""
    facts = [Fact(key, value) for key, value in sorted(node.metadata.labels.items())]
    blocks: list[Table | Facts] = []
    if node.spec.taints:
        rows: list[Sequence[Value]] = [[taint_text(taint)] for taint in node.spec.taints]
        blocks.append(Table("Taints", [Column("taint")], rows))
    conditions: list[Sequence[Value]] = [
        [condition.type, condition.status, condition.reason, condition.message]
        for condition in node.status.conditions
    ]
    if conditions:
        named = [Column("condition"), Column("status"), Column("reason"), Column("message")]
        blocks.append(Table("Conditions", named, conditions))
    return Section("Labels, taints and conditions", [Facts(facts), *blocks])


PAGE = page.Page("/nodes/{name:[^/]+}", "", "node.html", view, section="/nodes")
