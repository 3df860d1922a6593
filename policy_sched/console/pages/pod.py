"""A pod: why it has its node or none, what would change that, its history, claims and devices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from policy_sched.console.pages.page import Missing, Page, Query, Results, View, node_href
from policy_sched.console.sources import ClusterSource, Waiting
from policy_sched.explain import Explanation, explanation_page, explanation_sections, some
from policy_sched.model import Pod, PodInfo, ResourceClaim, counted, quantity_text
from policy_sched.web import Badge, Column, Fact, Facts, Prose, Section, Table, Text, Value

TOP: Final = 5
"""Nodes whose scores are shown, unless the address says another number."""
MOST: Final = 50
QUICK: Final = 1_000_000
"""The most waiting pods times nodes for which a page explains a pod after those ahead of it without
a request: half a second."""
DECISIONS: Final = 20
"""Decisions of a pod that are shown."""
ALLOCATED: Final = 20
"""Devices of a claim that are shown."""


def view(source: ClusterSource, query: Query, results: Results) -> View:
    """Return the values of the page."""
    del results
    pod = pod_named(source, query.arguments["namespace"], query.arguments["name"])
    info = PodInfo.of(pod)
    waiting = source.waiting().get(info.uid)
    files = source.status.kind == "files"
    asked = query.get("after") if files else "now"
    top = min(MOST, query.number("top", TOP) or TOP)
    sections = [about(info, waiting), *_history(source, info), *_claims(source, info)]
    values: dict[str, object] = {
        "heading": info.key,
        "after": asked == "queue",
        "may_wait": files and not info.pod.spec.node_name,
        "sections": sections,
    }
    node = info.pod.spec.node_name
    if node and info.pod_group and not files:
        lead = f"It has a node, {node}, and was placed with its group {info.pod_group}."
        return {**values, "lead": lead, "remarks": (), "tone": "good"}
    explained = now = source.explained(pod, top=top, after_queue=asked == "queue")
    if not asked and explained.ahead and _has_no_node_in_turn(source, waiting):
        explained = source.explained(pod, top=top, after_queue=True)
        values["after"] = True
    page = explanation_page(explained)
    reasons = explanation_sections(explained, node_href)
    rejected = [reasons.pop()] if explained.rejections else []  # the longest one comes last
    lead = f"It has a node: {node}. Without one, now: {page.lead}" if node else page.lead
    remarks = [remark.partition("; --after-queue")[0] for remark in page.remarks]
    if explained.after_queue and explained.ahead:
        lead = f"After the {counted(explained.ahead, 'pod')} ahead of it: {lead}"
        remarks = [remark for remark in remarks if not remark.startswith("decided after")]
    if waiting is not None and not explained.after_queue:
        remarks += _remarks_after_queue(waiting, explained.best)
    elif waiting is not None and explained is not now:
        remarks += _remarks_before_turn(source, waiting, now)
    return {
        **values,
        "lead": lead,
        "remarks": remarks,
        "tone": page.tone,
        "sections": [*reasons, *sections, *rejected],
    }


def _has_no_node_in_turn(source: ClusterSource, waiting: Waiting | None) -> bool:
    """Return whether a pod has no node after those ahead of it, and is quickly explained."""
    if waiting is None or waiting.node or not waiting.message:
        return False
    nodes = source.scheduler.cache.nodes.live_count
    return waiting.queue == "active" and len(source.waiting()) * nodes <= QUICK


def _remarks_before_turn(source: ClusterSource, waiting: Waiting, now: Explanation) -> list[str]:
    """Return where a pod would go on the cluster as it is, and which pods come first there."""
    if not now.best:
        return ["On the cluster as it is, it has no node either."]
    best = "one of " * (len(now.best) > 1) + some(now.best)
    every = source.waiting().values()
    ahead = itertools.takewhile(lambda pod: pod.uid != waiting.uid, every)
    names = [pod.key for pod in ahead if pod.node and pod.node not in now.rejections]
    sentences = [f"On the cluster as it is, it would go to {best}."]
    if names:
        come = "is ahead of it and goes" if len(names) == 1 else "are ahead of it and go"
        where = "a node" if len(names) == 1 else "nodes"
        sentences.append(f"{some(names)} {come} to {where} on which it fits now.")
    return sentences


def _remarks_after_queue(waiting: Waiting, best: Sequence[str]) -> list[str]:
    """Return what becomes of a pod after the pods ahead of it, if that is something else."""
    if waiting.node and waiting.node not in best:
        return [f"After the pods ahead of it, it goes to {waiting.node}."]
    if best and waiting.message and not waiting.node:
        return [f"After the pods ahead of it, it has no node: {waiting.message}"]
    return []


def pod_named(source: ClusterSource, namespace: str, name: str) -> Pod:
    """Return a pod by name. Raises Missing."""
    for pod in source.pods():
        if pod.metadata.name == name and (pod.metadata.namespace or "default") == namespace:
            return pod
    raise Missing(f"there is no pod {namespace}/{name}")


def about(info: PodInfo, waiting: Waiting | None) -> Section:
    """Return what a decision reads of the pod."""
    facts = [Fact("namespace", info.namespace), Fact("priority", str(info.priority))]
    node = info.pod.spec.node_name
    if node:
        facts.append(Fact("node", Text(node, node_href(node))))
    if waiting is not None:
        position = waiting.queue or "no queue"
        turn = (
            ""
            if waiting.position is None
            else f"number {waiting.position:,} of those that are ready"
        )
        facts.append(Fact("queue", position, turn))
    facts.append(Fact("scheduler", info.scheduler_name))
    requests = ", ".join(f"{k} {quantity_text(k, v)}" for k, v in info.requests.items())
    facts.append(Fact("requests", requests or "nothing"))
    if info.pod_group:
        facts.append(Fact("pod group", info.pod_group))
    for name, values in (("labels", info.labels), ("node selector", info.node_selector)):
        if values:
            facts.append(Fact(name, ", ".join(f"{k}={v}" for k, v in values.items())))
    if info.scheduling_gates:
        facts.append(Fact("scheduling gates", ", ".join(info.scheduling_gates)))
    return Section("The pod", [Facts(facts)])


def _history(source: ClusterSource, info: PodInfo) -> list[Section]:
    """Return the pod's decisions and conditions."""
    rows: list[Sequence[Value]] = [
        [_clock(decided.time), _node(decided.node), decided.why, str(decided.generation)]
        for decided in source.decided(info.key)[:DECISIONS]
    ]
    columns = [Column("time"), Column("node"), Column("why"), Column("generation", number=True)]
    blocks = [Table("Decisions, the newest first", columns, rows)] if rows else []
    conditions: list[Sequence[Value]] = [
        [condition.type, condition.status, condition.reason, condition.message]
        for condition in info.pod.status.conditions
    ]
    if conditions:
        named = [Column("condition"), Column("status"), Column("reason"), Column("message")]
        blocks.append(Table("Conditions", named, conditions))
    queued = source.scheduler.queue.get(info.uid)
    if queued is not None and queued.attempts:
        text = f"{queued.attempts} attempts, in the queue since {_clock(queued.first_enqueued_at)}"
        return [Section("History", [Prose([text]), *blocks])]
    return [Section("History", blocks)] if blocks else []


def _node(name: str) -> Value:
    return Text(name, node_href(name)) if name else "-"


def _clock(time: int) -> str:
    return datetime.fromtimestamp(time / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _claims(source: ClusterSource, info: PodInfo) -> list[Section]:
    """Return the pod's resource claims and the devices they have."""
    rows: list[Sequence[Value]] = []
    for reference in info.pod.spec.resource_claims:
        claim = claim_of(source, info, reference.name, reference.resource_claim_name or "")
        if claim is None:
            rows.append([reference.name, Badge("not there", "warn"), ""])
            continue
        allocation = claim.status.allocation
        devices = [] if allocation is None else list(allocation.devices.results)
        names = [f"{result.driver}/{result.pool}/{result.device}" for result in devices[:ALLOCATED]]
        more = f" and {len(devices) - ALLOCATED} more" if len(devices) > ALLOCATED else ""
        state = Badge("allocated", "good") if allocation else Badge("not allocated")
        rows.append([claim.metadata.name, state, ", ".join(names) + more])
    if not rows:
        return []
    columns = [Column("claim"), Column("state"), Column("devices")]
    return [Section("Claims", [Table("Resource claims", columns, rows)])]


def claim_of(source: ClusterSource, info: PodInfo, name: str, direct: str) -> ResourceClaim | None:
    """Return the claim behind an entry of a pod: named directly, or made from a template."""
    objects = source.scheduler.handle.objects
    if direct:
        return objects.named(ResourceClaim, info.namespace, direct)
    for status in info.pod.status.resource_claim_statuses:
        if status.name == name:
            return objects.named(ResourceClaim, info.namespace, status.resource_claim_name or "")
    return None


PAGE = Page("/pods/{namespace:[^/]+}/{name:[^/]+}", "", "pod.html", view, section="/pods")
