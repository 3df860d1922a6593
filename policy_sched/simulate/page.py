"""The pages of runs: placements of one, and queue, utilisation and waits of a timeline as curves.

Below stands what it was made from: the cluster, what decided, the seed, the version. Nothing of it
depends on the time at which, or the place where, the report is written. The time of the data is the
one that the objects themselves state: a file's time changes with each copy.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from policy_sched import __version__, model, web
from policy_sched.model import counted, quantity_text
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.simulate import report
from policy_sched.simulate.timeline_result import (
    SECOND,
    Buckets,
    PodTimeline,
    TimelineResult,
    bucket_rows,
    duration_text,
    never_placed,
    shown_resources,
    victims_of,
    waiting_over,
    waiting_rows,
)
from policy_sched.simulate.traces import is_trace
from policy_sched.web import Block, Column, Fact, Facts, Section, Table, Text, Value

NAMED: Final = 5
"""Pods of a group that are named."""
PODS: Final = 1000
NODES: Final = 100
"""Rows of the tables of pods and nodes."""
FULL: Final = 0.9
"""From this share on a meter warns."""


def run_page(run: report.OneShotRun, usages: Sequence[report.NodeUsage]) -> web.Summary:
    """Return the report of a run."""
    tone: web.Tone = "good" if run.placed == len(run.placements) else "bad"
    sections = []
    lost = [placement for placement in run.placements if placement.node is None]
    if lost:
        sections.append(_without_node(lost, run))
    if run.preemptions:
        sections.append(web.Section("Preemption", [_preemptions(run)]))
    if run.skipped_extenders:
        sections.append(web.Section("Extenders that failed and were ignored", [_extenders(run)]))
    if run.allocation:
        sections.append(web.Section("Allocation", [_allocation(run)]))
    if usages:
        sections.append(web.Section("Nodes", list(_nodes(usages))))
    if run.policies:
        sections.append(policies_section(run.policies))
    if run.placements:
        sections.append(web.Section("Placements", [_placements(run.placements)]))
    numbers = _numbers(run)
    return web.Summary(run.placed_text(), _lead(lost), sections, "simulate", tone, facts=numbers)


def _lead(lost: Sequence[report.PodPlacement]) -> str:
    """Return the reason that keeps most pods from a node."""
    if not lost:
        return "Every pending pod has a node."
    reason, pods = grouped(lost)[0]
    if len(pods) == len(lost):
        have = "The pod that has no node has" if len(lost) == 1 else "All pods without a node have"
        return f"{have} one reason on most nodes: {reason}"
    return f"Most often a pod has no node for this reason: {reason}"


def grouped(lost: Sequence[report.PodPlacement]) -> list[tuple[str, list[report.PodPlacement]]]:
    """Return pods without a node by the reason that most nodes have, the largest group first."""
    groups: defaultdict[str, list[report.PodPlacement]] = defaultdict(list)
    for placement in lost:
        groups[placement.reasons[0] if placement.reasons else placement.message].append(placement)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def _numbers(run: report.OneShotRun) -> web.Facts:
    total = len(run.placements)
    nowhere = str(total - run.placed)
    facts = [
        web.Fact("Pods placed", f"{run.placed:,}", f"of {total:,}"),
        web.Fact(
            "Without a node", web.Text(nowhere, tone="bad") if run.placed < total else nowhere
        ),
        web.Fact("Nodes", f"{run.nodes:,}"),
        web.Fact("Preemptions", f"{len(run.preemptions):,}"),
    ]
    facts += [
        web.Fact(
            f"{allocation.resource} requested",
            f"{allocation.percent:.1f} %",
            " of ".join(allocation.amounts),
        )
        for allocation in run.allocation
        if allocation.resource != "pods"
    ][:4]
    return web.Facts(facts, big=True)


def _without_node(lost: Sequence[report.PodPlacement], run: report.OneShotRun) -> web.Section:
    groups: list[list[web.Value]] = []
    for reason, pods in grouped(lost):
        more = len(pods) - NAMED
        names = ", ".join(placement.pod for placement in pods[:NAMED])
        groups.append([reason, str(len(pods)), names + f" and {more:,} more" * (more > 0)])
    first = web.Table(
        "By the reason that most nodes have",
        [web.Column("Reason"), web.Column("Pods", number=True), web.Column("Which", wide=True)],
        groups,
    )
    reasons: list[list[web.Value]] = [
        [reason, str(count)] for reason, count in report.by_count(run.unschedulable_by)
    ]
    every = web.Table(
        "By every reason; a pod counts for each of its reasons",
        [web.Column("Reason"), web.Column("Pods", number=True)],
        reasons,
    )
    rows: list[list[web.Value]] = [
        [placement.pod, placement.cpu, placement.memory, placement.message]
        for placement in lost[:PODS]
    ]
    heads = [
        web.Column("Pod"),
        web.Column("cpu", True),
        web.Column("memory", True),
        web.Column("Message", wide=True),
    ]
    messages = web.Table("Messages", heads, rows, _more(len(lost), PODS), sortable=True)
    return web.Section("Pods without a node", [first, every, messages])


def _preemptions(run: report.OneShotRun) -> web.Table:
    rows: list[list[web.Value]] = [
        [record.pod, record.node, ", ".join(record.victims)] for record in run.preemptions[:PODS]
    ]
    columns = [web.Column("Pod"), web.Column("Nominated to"), web.Column("Victims", wide=True)]
    return web.Table("Pods that evict others", columns, rows, _more(len(run.preemptions), PODS))


def _extenders(run: report.OneShotRun) -> web.Table:
    rows: list[list[web.Value]] = [
        [name, str(count), error] for name, (count, error) in run.skipped_extenders.items()
    ]
    columns = [
        web.Column("Extender"),
        web.Column("Failures", number=True),
        web.Column("The last one"),
    ]
    return web.Table("Pods were decided without them", columns, rows)


def _allocation(run: report.OneShotRun) -> web.Table:
    rows: list[list[web.Value]] = []
    for allocation in run.allocation:
        share = allocation.percent / 100
        meter = web.Meter(share, f"{allocation.percent:.1f} %", "warn" if share >= FULL else "")
        rows.append([allocation.resource, *allocation.amounts, meter])
    columns = [
        web.Column("Resource"), web.Column("Requested", True), web.Column("Allocatable", True),
        web.Column("Share"),
    ]  # fmt: skip
    return web.Table("Over all nodes, with the pods that were placed", columns, rows)


def _nodes(usages: Sequence[report.NodeUsage]) -> Iterator[web.Block]:
    """Yield a cell for each node, by the resource that is used most, and the fullest nodes."""
    names = list(dict.fromkeys(name for usage in usages for name in usage.amounts))
    cells = [
        web.Cell(usage.node, max(_shares(usage), default=None), _usage_text(usage, names))
        for usage in usages
    ]
    caption = "The share of the scarcest resource that is requested"
    yield web.Cells(caption, [web.CellGroup("", cells)], unknown="nothing allocatable")
    fullest = sorted(usages, key=lambda usage: (-max(_shares(usage), default=0.0), usage.node))
    rows: list[list[web.Value]] = [
        [usage.node, str(usage.pods), *(_meter(usage.share(name)) for name in names)]
        for usage in fullest[:NODES]
    ]
    columns = [web.Column("Node"), web.Column("Pods", number=True), *map(web.Column, names)]
    more = _more(len(usages), NODES)
    yield web.Table("The fullest nodes first", columns, rows, more, sortable=True)


def _shares(usage: report.NodeUsage) -> list[float]:
    return [share for name in usage.amounts if (share := usage.share(name)) is not None]


def _meter(share: float | None) -> web.Value:
    if share is None:
        return web.Text(report.NOWHERE, tone="dim")
    return web.Meter(share, f"{100 * share:.1f} %", "warn" if share >= FULL else "")


def _usage_text(usage: report.NodeUsage, names: Sequence[str]) -> str:
    """Return what is requested of a node: in the tooltip of its cell."""
    parts = [counted(usage.pods, "pod")]
    for name in names:
        if name in usage.amounts:
            used, given = (quantity_text(name, amount) for amount in usage.amounts[name])
            parts.append(f"{name} {used} of {given}")
    return ", ".join(parts)


def policies_section(
    policies: Sequence[report.AppliedPolicy], title: str = "Policies"
) -> web.Section:
    """Return the number of pods and nodes that each policy applied to."""
    several = len({policy.profile for policy in policies}) > 1
    texts = [
        web.Text(f"{policy.policy} in profile {policy.profile}" if several else policy.policy,
             note=report.applied_text(policy), tone="bad" if policy.failed else "")
        for policy in policies
    ]  # fmt: skip
    return web.Section(title, [web.Prose(texts, points=True)])


def _placements(placements: Sequence[report.PodPlacement]) -> web.Table:
    rows: list[list[web.Value]] = []
    for placement in placements[:PODS]:
        node: web.Value = (
            placement.node if placement.node is not None else web.Text(report.NOWHERE, tone="bad")
        )
        score = report.NOWHERE if placement.score is None else str(placement.score)
        rows.append(
            [placement.pod, node, str(placement.feasible), score, placement.cpu, placement.memory]
        )
    columns = [
        web.Column("Pod"), web.Column("Node"), web.Column("Feasible nodes", True),
        web.Column("Score", True), web.Column("cpu", True), web.Column("memory", True),
    ]  # fmt: skip
    more = _more(len(placements), PODS)
    return web.Table("In the order of the input", columns, rows, more, sortable=True)


def _more(total: int, shown: int) -> str:
    """Return what a table leaves out; JSON has all of it."""
    return f"and {total - shown:,} more, which --output json has" if total > shown else ""


ORIGIN: Final = "What this was made from"
"""The heading of the section."""
DIGITS: Final = 12
"""Hexadecimal digits that are shown of a hash."""


@dataclass(frozen=True, slots=True)
class ObjectsDigest:
    """Objects in short: numbers of each kind, SHA-256 (hex), and creation time of the newest."""

    objects: str
    digest: str
    newest: str
    """RFC 3339, empty if no object states a time."""


def contents_of(objects: Iterable[model.ApiObject]) -> ObjectsDigest:
    """Return objects in short, as they were read: before a simulation sets their times."""
    digest, kinds, newest = hashlib.sha256(), Counter[str](), 0
    for obj in objects:
        digest.update(msgspec.json.encode(obj))
        kinds[type(obj).__name__] += 1
        newest = max(newest, model.nanoseconds(obj.metadata.creation_timestamp))
    text = ", ".join(model.counted(count, kind) for kind, count in sorted(kinds.items()))
    return ObjectsDigest(text or "none", digest.hexdigest(), time_text(newest) if newest else "")


def time_text(time: int) -> str:
    """Return a time in nanoseconds since 1970 in RFC 3339."""
    return model.datetime_of(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster_facts(sources: Sequence[str], contents: ObjectsDigest) -> list[Fact]:
    """Return where a cluster came from, and what it holds; a trace has seconds, and no dates."""
    newest = "a trace has no dates" if any(map(is_trace, sources)) else contents.newest
    return [
        Fact(
            "Cluster",
            ", ".join("standard input" if source == "-" else source for source in sources),
        ),
        Fact("Objects", contents.objects),
        Fact("Hash of the objects", Text(contents.digest[:DIGITS], code=True)),
        Fact("Newest object", newest or "none states its time"),
    ]


def policy_facts(files: PolicyFiles) -> list[Fact]:
    """Return the files of the policies that decided."""
    config = files.config if isinstance(files.config, str) else None
    policies = [Fact("Policies", ", ".join(files.policies))] if files.policies else []
    return [Fact("Configuration", config or "the default profile"), *policies]


def origin(
    facts: Sequence[Fact],
    sides: Mapping[str, Sequence[CompiledPlan]],
    *more: Block,
    program: str = __version__,
) -> Section:
    """Return the section. ``sides``: what decided, by a name that tells several apart."""
    several = len(sides) > 1
    rows: list[Sequence[Value]] = []
    for side, plans in sides.items():
        for plan in plans:
            policies = ((name, plan.hashes[name].whole) for name in plan.own)
            for name, digest in (("", plan.content_hash), *policies):
                policy = name or Text("all of it", tone="dim")
                head = [*([side] if several else []), plan.plan.scheduler_name]
                rows.append([*head, policy, Text(digest[:DIGITS], code=True)])
    heads = [*(["Set"] if several else []), "Profile", "Policy", "Hash"]
    decided = [Table("What decided", [Column(name) for name in heads], rows)] if rows else []
    return Section(ORIGIN, [Facts([Fact("policy-sched", program), *facts]), *decided, *more])


POINTS: Final = 200
"""Points of a curve, unless the intervals are given."""
LITTLE: Final = 20.0
"""Percent below which the scale of utilisation does not go to 100."""
ROWS: Final = 200
"""Rows of tables of pods."""


def timeline_page(result: TimelineResult) -> web.Summary:
    """Return the report of a timeline."""
    lost = never_placed(result)
    tone: web.Tone = "bad" if lost else "good"
    sections = []
    if lost:
        sections.append(web.Section("Never placed", list(_never(lost))))
    if result.lives:
        sections.append(web.Section("Over time", timeline_charts(result), beside=True))
        sections.append(
            web.Section("Waiting times", [_table("From creation to a node", waiting_rows(result))])
        )
    if result.evictions:
        sections.append(web.Section("Preemptions", [_timeline_preemptions(result)]))
    if result.policies:
        sections.append(policies_section(result.policies))
    rows = bucket_rows(Buckets.of(result), result)
    caption = (
        "The longest queue, the mean number of pods on nodes, the mean share that is requested"
    )
    sections.append(web.Section("Intervals", [_table(caption, rows)]))
    title, numbers = result.placed_text(), _timeline_numbers(result, lost)
    kind = "simulate --timeline"
    return web.Summary(title, _timeline_lead(result, lost), sections, kind, tone, facts=numbers)


def _timeline_lead(result: TimelineResult, lost: Sequence[PodTimeline]) -> str:
    """Return what a reader asks first: what was never placed, or how long pods waited."""
    if lost:
        message, count = _messages(lost)[0]
        pods = "pod was" if len(lost) == 1 else "pods were"
        most = "" if count == len(lost) else f"{count:,} of them: "
        return f"{len(lost):,} {pods} never placed; {most}{message}"
    longest = max((life.waited or 0 for life in result.lives), default=0)
    return f"Every pod had a node; the longest wait was {duration_text(longest)}."


def _timeline_numbers(result: TimelineResult, lost: Sequence[PodTimeline]) -> web.Facts:
    never = str(len(lost))
    return web.Facts(
        [
            web.Fact(
                "Pods placed", f"{len(result.lives) - len(lost):,}", f"of {len(result.lives):,}"
            ),
            web.Fact("Never placed", web.Text(never, tone="bad") if lost else never),
            web.Fact("Makespan", duration_text(result.end - result.start)),
            web.Fact("Longest queue", f"{max(result.pending.values, default=0):,}", "pods"),
            web.Fact("Attempts", f"{sum(life.attempts for life in result.lives):,}"),
            web.Fact(
                "Preemptions",
                f"{len(result.evictions):,}",
                f"of {counted(victims_of(result), 'pod')}",
            ),
        ],
        big=True,
    )


def timeline_charts(result: TimelineResult) -> list[web.Chart]:
    """Return queue, pods on nodes, utilisation, waiting times and preemptions as curves."""
    span = max(1, result.end - result.start)
    fine = replace(result, bucket=result.bucket or max(SECOND, -(-span // POINTS)))
    buckets = Buckets.of(fine)
    shown = shown_resources(buckets, fine)
    x = ((buckets.edges - result.start) / SECOND).tolist()
    return [
        web.Chart(
            "queue", "Queue", "time", x, [web.Series("longest queue", _held(buckets.pending))],
            unit="pods", kind="duration", stepped=True,
        ),
        web.Chart(
            "running", "Pods on nodes", "time", x, [web.Series("mean", _held(buckets.running))],
            unit="pods", kind="duration", stepped=True,
        ),
        web.Chart(
            "utilisation", "Requested share of what is allocatable", "time", x,
            [web.Series(name, _held(buckets.percent[name])) for name in shown],
            unit="%", kind="duration", stepped=True, high=_high(buckets, shown),
        ),
        *_waits(fine, buckets, x),
        *_evictions(fine, buckets, x),
    ]  # fmt: skip


def _waits(result: TimelineResult, buckets: Buckets, x: Sequence[float]) -> Iterator[web.Chart]:
    waiting = waiting_over(result, buckets.edges)
    series = [
        web.Series(
            name,
            [getattr(times, key) / SECOND if times.pods else None for times in waiting] + [None],
        )
        for name, key in (("p50", "p50"), ("p90", "p90"), ("max", "longest"))
    ]
    if any(times.longest for times in waiting):
        note = "of the pods that were bound in each interval"
        title = "Waiting times"
        yield web.Chart("waits", title, "time", x, series, unit="s", kind="duration", note=note)


def _evictions(result: TimelineResult, buckets: Buckets, x: Sequence[float]) -> Iterator[web.Chart]:
    if result.evictions:
        times = [eviction.at for eviction in result.evictions]
        weights = [len(eviction.victims) for eviction in result.evictions]
        counts, _ = np.histogram(times, bins=buckets.edges, weights=weights)
        series = [web.Series("evicted", _held(counts))]
        title = "Evicted pods"
        yield web.Chart(
            "evictions", title, "time", x, series, unit="pods", kind="duration", stepped=True
        )


def _high(buckets: Buckets, resources: Sequence[str]) -> float:
    """Return 100, or 0 where so little is requested that its curve would not be seen."""
    peak = max((buckets.percent[name].max() for name in resources), default=0.0)
    return 100.0 if peak >= LITTLE else 0.0


def _held(values: np.ndarray) -> list[float]:
    """Return the values of intervals, and the last one again: where it ends."""
    rounded = [round(value, 3) for value in values.tolist()]
    return [*rounded, rounded[-1]]


def _table(caption: str, rows: Sequence[Sequence[str]]) -> web.Table:
    """Return rows under their headings; all columns but the first are numbers."""
    head, *others = rows
    return web.Table(
        caption, [web.Column(name, number=i > 0) for i, name in enumerate(head)], others
    )


def _timeline_preemptions(result: TimelineResult) -> web.Table:
    rows: list[list[web.Value]] = [
        [
            duration_text(eviction.at - result.start),
            eviction.pod,
            eviction.node,
            ", ".join(eviction.victims),
        ]
        for eviction in result.evictions[:ROWS]
    ]
    columns = [web.Column("At"), web.Column("Pod"), web.Column("Takes node"), web.Column("From")]
    return web.Table("Pods that evict others", columns, rows, _timeline_more(len(result.evictions)))


def _messages(lost: Sequence[PodTimeline]) -> list[tuple[str, int]]:
    """Return the messages of pods with their number, the most frequent first."""
    counts = Counter(life.message or "not tried" for life in lost)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _never(lost: Sequence[PodTimeline]) -> Iterator[web.Table]:
    groups: list[list[web.Value]] = [
        [message, str(count)] for message, count in _messages(lost)[:ROWS]
    ]
    yield web.Table(
        "By the last message",
        [web.Column("Message", wide=True), web.Column("Pods", number=True)],
        groups,
    )
    rows: list[list[web.Value]] = [
        [life.pod, str(life.priority), str(life.attempts), life.message] for life in lost[:ROWS]
    ]
    columns = [
        web.Column("Pod"), web.Column("Priority", True), web.Column("Attempts", True),
        web.Column("Message", wide=True),
    ]  # fmt: skip
    yield web.Table("In order of arrival", columns, rows, _timeline_more(len(lost)), sortable=True)


def _timeline_more(total: int) -> str:
    return f"and {total - ROWS:,} more, which --output json has" if total > ROWS else ""
