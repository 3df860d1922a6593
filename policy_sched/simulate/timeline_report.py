"""What came of a play over virtual time, for people and for programs.

The machine formats hold no times of this machine, paths or versions: the same input gives the same
bytes. Times are seconds since the start of the play.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from policy_sched.model import counted, quantity_text
from policy_sched.simulate.report import policy_document, policy_lines
from policy_sched.simulate.timeline_result import (
    SECOND,
    Buckets,
    PodTimeline,
    TimelineResult,
    Waiting,
    duration_text,
    never_placed,
    victims_of,
    waiting_by_priority,
)
from policy_sched.simulate.virtual_cluster import datetime_of

SHOWN: Final = 10
"""Evictions and pods without a node that the table names; json has all of them."""


def table_lines(story: TimelineResult, width: int) -> Iterator[str]:
    """Yield the story for people."""
    lost = never_placed(story)
    pods, nodes = len(story.lives), story.nodes
    placed, on = f"{pods - len(lost):,}", counted(nodes, "node")
    yield f"{placed} of {counted(pods, 'pod')} placed on {on}"
    yield f"  makespan      {duration_text(story.end - story.start)}"
    yield f"  attempts      {sum(life.attempts for life in story.lives)}"
    yield f"  preemptions   {len(story.evictions)}, of {counted(victims_of(story), 'pod')}"
    yield f"  longest queue {max(story.pending.values, default=0)}"
    yield ""
    yield from _waiting_lines(story)
    yield ""
    yield from _bucket_lines(Buckets.of(story, width), story)
    if story.policies:
        yield ""
        yield from policy_lines(story.policies)
    if story.evictions:
        yield ""
        yield "Preemptions:"
        lines = [
            f"  {duration_text(one.at - story.start)}  {one.pod} takes {one.node} from "
            + ", ".join(one.victims)
            for one in story.evictions
        ]
        yield from _shortened(lines)
    if lost:
        yield ""
        yield "Never placed:"
        yield from _shortened([f"  {life.pod}  {life.message}" for life in lost])


def _waiting_lines(story: TimelineResult) -> Iterator[str]:
    rows = [["WAITING", "PODS", "P50", "P90", "P99", "MAX"]]
    found = waiting_by_priority(story)
    named = {f"priority {priority}": waiting for priority, waiting in found.items()}
    if len(named) != 1:
        named = {"all": Waiting.of(story.lives), **named}
    for name, w in named.items():
        times = (duration_text(time) for time in (w.p50, w.p90, w.p99, w.longest))
        rows.append([name, str(w.pods), *times])
    yield from _aligned(rows)


def _bucket_lines(buckets: Buckets, story: TimelineResult) -> Iterator[str]:
    shown = [name for name in buckets.percent if any(story.allocatable[name].values)]
    rows = [["FROM", "QUEUE", "RUNNING", *(name.rpartition("/")[2].upper() for name in shown)]]
    for i, start in enumerate(buckets.edges[:-1].tolist()):
        rows.append(
            [
                duration_text(start - story.start),
                str(buckets.pending[i]),
                f"{buckets.running[i]:.1f}",
                *(f"{buckets.percent[name][i]:.1f} %" for name in shown),
            ]
        )
    yield from _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "   ".join([row[0].ljust(widths[0]), *cells[1:]])


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"  ... and {len(lines) - SHOWN} more"


def as_json(story: TimelineResult, width: int) -> str:
    """Return one JSON document: summary, waiting times, stretches of time, preemptions."""
    return json.dumps(document(story, width), indent=2, ensure_ascii=False) + "\n"


def as_jsonl(story: TimelineResult) -> str:
    """Return one line per pod, in order of arrival."""
    encode = msgspec.json.Encoder().encode
    return b"".join(encode(_life(life, story)) + b"\n" for life in story.lives).decode()


def document(story: TimelineResult, width: int) -> dict[str, object]:
    """Return the story as plain data; amounts are quantities."""
    lost = never_placed(story)
    return {
        "summary": {
            "start": _timestamp(story.start),
            "makespan": _seconds(story.end - story.start),
            "nodes": story.nodes,
            "pods": len(story.lives),
            "placed": len(story.lives) - len(lost),
            "ended": sum(life.ended is not None and not life.evicted for life in story.lives),
            "attempts": sum(life.attempts for life in story.lives),
            "preemptions": len(story.evictions),
            "evicted": victims_of(story),
            "longestQueue": max(story.pending.values, default=0),
            "policies": policy_document(story.policies),
        },
        "waiting": {
            "all": _waiting(Waiting.of(story.lives)),
            "byPriority": {str(p): _waiting(w) for p, w in waiting_by_priority(story).items()},
        },
        "buckets": list(_bucket_documents(Buckets.of(story, width), story)),
        "preemptions": [
            {
                "at": _seconds(one.at - story.start),
                "pod": one.pod,
                "node": one.node,
                "victims": list(one.victims),
            }
            for one in story.evictions
        ],
        "neverPlaced": [{"pod": life.pod, "message": life.message} for life in lost],
    }


def _bucket_documents(buckets: Buckets, story: TimelineResult) -> Iterator[dict[str, object]]:
    for i, start in enumerate(buckets.edges[:-1].tolist()):
        yield {
            "from": _seconds(start - story.start),
            "queue": int(buckets.pending[i]),
            "running": round(float(buckets.running[i]), 3),
            "resources": {
                name: {
                    "mean": quantity_text(name, round(mean[i])),
                    "peak": quantity_text(name, int(peak[i])),
                    "percent": round(float(buckets.percent[name][i]), 2),
                }
                for name, (mean, peak) in buckets.used.items()
            },
        }


def _life(life: PodTimeline, story: TimelineResult) -> dict[str, object]:
    def since_start(time: int | None) -> float | None:
        return None if time is None else _seconds(time - story.start)

    return {
        "pod": life.pod,
        "priority": life.priority,
        "created": since_start(life.created),
        "bound": since_start(life.bound),
        "ended": since_start(life.ended),
        "waited": None if life.waited is None else _seconds(life.waited),
        "node": life.node or None,
        "attempts": life.attempts,
        "evicted": life.evicted,
        "message": life.message,
    }


def _waiting(found: Waiting) -> dict[str, object]:
    return {
        "pods": found.pods,
        "p50": _seconds(found.p50),
        "p90": _seconds(found.p90),
        "p99": _seconds(found.p99),
        "max": _seconds(found.longest),
    }


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / SECOND


def _timestamp(nanoseconds: int) -> str:
    return datetime_of(nanoseconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def speed_line(story: TimelineResult) -> str:
    """Return how fast the play was."""
    attempts = sum(life.attempts for life in story.lives)
    span = duration_text(story.end - story.start)
    return f"{span} played in {story.seconds:.1f} s, {attempts} attempts"
