"""The page of a timeline: queue, utilisation and waits as curves, and what was never placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from policy_sched import web
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
        sections.append(web.Section("Preemptions", [_preemptions(result)]))
    if result.policies:
        sections.append(policies_section(result.policies))
    rows = bucket_rows(Buckets.of(result), result)
    caption = (
        "The longest queue, the mean number of pods on nodes, the mean share that is requested"
    )
    sections.append(web.Section("Intervals", [_table(caption, rows)]))
    title, numbers = result.placed_text(), _numbers(result, lost)
    kind = "simulate --timeline"
    return web.Summary(title, _lead(result, lost), sections, kind, tone, facts=numbers)


def _lead(result: TimelineResult, lost: Sequence[PodTimeline]) -> str:
    """Return what a reader asks first: what was never placed, or how long pods waited."""
    if lost:
        message, count = _messages(lost)[0]
        pods = "pod was" if len(lost) == 1 else "pods were"
        most = "" if count == len(lost) else f"{count:,} of them: "
        return f"{len(lost):,} {pods} never placed; {most}{message}"
    longest = max((life.waited or 0 for life in result.lives), default=0)
    return f"Every pod had a node; the longest wait was {duration_text(longest)}."


def _numbers(result: TimelineResult, lost: Sequence[PodTimeline]) -> web.Facts:
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
    found = [round(value, 3) for value in values.tolist()]
    return [*found, found[-1]]


def _table(caption: str, rows: Sequence[Sequence[str]]) -> web.Table:
    """Return rows under their headings; all columns but the first are numbers."""
    head, *others = rows
    return web.Table(
        caption, [web.Column(name, number=i > 0) for i, name in enumerate(head)], others
    )


def _preemptions(result: TimelineResult) -> web.Table:
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
    return web.Table("Pods that evict others", columns, rows, _more(len(result.evictions)))


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
    yield web.Table("In order of arrival", columns, rows, _more(len(lost)), sortable=True)


def _more(total: int) -> str:
    return f"and {total - ROWS:,} more, which --output json has" if total > ROWS else ""
