"""The page of a timeline: queue, utilisation and waits as curves, and what was never placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from policy_sched.model import counted
from policy_sched.simulate.page import policies_section
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
from policy_sched.web import (
    Chart,
    Column,
    Fact,
    Facts,
    Section,
    Series,
    Summary,
    Table,
    Text,
    Tone,
    Value,
)

POINTS: Final = 200
"""Points of a curve, unless the intervals are given."""
LITTLE: Final = 20.0
"""Percent below which the scale of utilisation does not go to 100."""
ROWS: Final = 200
"""Rows of tables of pods."""


def timeline_page(result: TimelineResult) -> Summary:
    """Return the report of a timeline."""
    lost = never_placed(result)
    tone: Tone = "bad" if lost else "good"
    sections = []
    if lost:
        sections.append(Section("Never placed", list(_never(lost))))
    if result.lives:
        sections.append(Section("Over time", timeline_charts(result), beside=True))
        sections.append(
            Section("Waiting times", [_table("From creation to a node", waiting_rows(result))])
        )
    if result.evictions:
        sections.append(Section("Preemptions", [_preemptions(result)]))
    if result.policies:
        sections.append(policies_section(result.policies))
    rows = bucket_rows(Buckets.of(result), result)
    caption = (
        "The longest queue, the mean number of pods on nodes, the mean share that is requested"
    )
    sections.append(Section("Intervals", [_table(caption, rows)]))
    title, numbers = result.placed_text(), _numbers(result, lost)
    kind = "simulate --timeline"
    return Summary(title, _lead(result, lost), sections, kind, tone, facts=numbers)


def _lead(result: TimelineResult, lost: Sequence[PodTimeline]) -> str:
    """Return what a reader asks first: what was never placed, or how long pods waited."""
    if lost:
        message, count = _messages(lost)[0]
        pods = "pod was" if len(lost) == 1 else "pods were"
        most = "" if count == len(lost) else f"{count:,} of them: "
        return f"{len(lost):,} {pods} never placed; {most}{message}"
    longest = max((life.waited or 0 for life in result.lives), default=0)
    return f"Every pod had a node; the longest wait was {duration_text(longest)}."


def _numbers(result: TimelineResult, lost: Sequence[PodTimeline]) -> Facts:
    never = str(len(lost))
    return Facts(
        [
            Fact("Pods placed", f"{len(result.lives) - len(lost):,}", f"of {len(result.lives):,}"),
            Fact("Never placed", Text(never, tone="bad") if lost else never),
            Fact("Makespan", duration_text(result.end - result.start)),
            Fact("Longest queue", f"{max(result.pending.values, default=0):,}", "pods"),
            Fact("Attempts", f"{sum(life.attempts for life in result.lives):,}"),
            Fact(
                "Preemptions",
                f"{len(result.evictions):,}",
                f"of {counted(victims_of(result), 'pod')}",
            ),
        ],
        big=True,
    )


def timeline_charts(result: TimelineResult) -> list[Chart]:
    """Return queue, pods on nodes, utilisation, waiting times and preemptions as curves."""
    span = max(1, result.end - result.start)
    fine = replace(result, bucket=result.bucket or max(SECOND, -(-span // POINTS)))
    buckets = Buckets.of(fine)
    shown = shown_resources(buckets, fine)
    x = ((buckets.edges - result.start) / SECOND).tolist()
    return [
        Chart(
            "queue", "Queue", "time", x, [Series("longest queue", _held(buckets.pending))],
            unit="pods", kind="duration", stepped=True,
        ),
        Chart(
            "running", "Pods on nodes", "time", x, [Series("mean", _held(buckets.running))],
            unit="pods", kind="duration", stepped=True,
        ),
        Chart(
            "utilisation", "Requested share of what is allocatable", "time", x,
            [Series(name, _held(buckets.percent[name])) for name in shown],
            unit="%", kind="duration", stepped=True, high=_high(buckets, shown),
        ),
        *_waits(fine, buckets, x),
        *_evictions(fine, buckets, x),
    ]  # fmt: skip


def _waits(result: TimelineResult, buckets: Buckets, x: Sequence[float]) -> Iterator[Chart]:
    found = waiting_over(result, buckets.edges)
    series = [
        Series(name, [getattr(one, key) / SECOND if one.pods else None for one in found] + [None])
        for name, key in (("p50", "p50"), ("p90", "p90"), ("max", "longest"))
    ]
    if any(one.longest for one in found):
        note = "of the pods that were bound in each interval"
        title = "Waiting times"
        yield Chart("waits", title, "time", x, series, unit="s", kind="duration", note=note)


def _evictions(result: TimelineResult, buckets: Buckets, x: Sequence[float]) -> Iterator[Chart]:
    if result.evictions:
        times = [one.at for one in result.evictions]
        weights = [len(one.victims) for one in result.evictions]
        counts, _ = np.histogram(times, bins=buckets.edges, weights=weights)
        series = [Series("evicted", _held(counts))]
        title = "Evicted pods"
        yield Chart(
            "evictions", title, "time", x, series, unit="pods", kind="duration", stepped=True
        )


def _high(buckets: Buckets, resources: Sequence[str]) -> float:
    """Return 100, or 0 where so little is requested that its curve would not be seen."""
    peak = max((buckets.percent[name].max() for name in resources), default=0.0)
    return 100.0 if peak >= LITTLE else 0.0


def _held(values: np.ndarray) -> list[float]:
    """Return the values of intervals, and the last one again: where it ends."""
    found = [round(value, 3) for value in values.tolist()]
    return [*found, found[-1]]


def _table(caption: str, rows: Sequence[Sequence[str]]) -> Table:
    """Return rows under their headings; all columns but the first are numbers."""
    head, *others = rows
    return Table(caption, [Column(name, number=i > 0) for i, name in enumerate(head)], others)


def _preemptions(result: TimelineResult) -> Table:
    rows: list[list[Value]] = [
        [duration_text(one.at - result.start), one.pod, one.node, ", ".join(one.victims)]
        for one in result.evictions[:ROWS]
    ]
    columns = [Column("At"), Column("Pod"), Column("Takes node"), Column("From")]
    return Table("Pods that evict others", columns, rows, _more(len(result.evictions)))


def _messages(lost: Sequence[PodTimeline]) -> list[tuple[str, int]]:
    """Return the messages of pods with their number, the most frequent first."""
    counts = Counter(life.message or "not tried" for life in lost)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _never(lost: Sequence[PodTimeline]) -> Iterator[Table]:
    groups: list[list[Value]] = [[message, str(count)] for message, count in _messages(lost)[:ROWS]]
    yield Table(
        "By the last message", [Column("Message", wide=True), Column("Pods", number=True)], groups
    )
    rows: list[list[Value]] = [
        [life.pod, str(life.priority), str(life.attempts), life.message] for life in lost[:ROWS]
    ]
    columns = [
        Column("Pod"), Column("Priority", True), Column("Attempts", True),
        Column("Message", wide=True),
    ]  # fmt: skip
    yield Table("In order of arrival", columns, rows, _more(len(lost)), sortable=True)


def _more(total: int) -> str:
    return f"and {total - ROWS:,} more, which --output json has" if total > ROWS else ""
