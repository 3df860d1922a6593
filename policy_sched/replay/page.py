"""The pages of replays: how far decisions agree, and two sets of policies over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from policy_sched.diff import moves_tables
from policy_sched.instance.shadow import Agreement, why
from policy_sched.model import SECOND
from policy_sched.replay.agreement import WORDS, AgreementReport
from policy_sched.replay.comparison import ReplayDiff
from policy_sched.replay.runs import Window
from policy_sched.simulate import time_text
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

ROWS: Final = 500
"""Rows of a table."""


def agreement_page(report: AgreementReport) -> Summary:
    """Return the page of an agreement."""
    tally, differences = report.tally, report.tally.differences
    facts = [
        Fact("Decisions", f"{tally.decisions:,}"),
        Fact("Agree", f"{tally.results[Agreement.AGREE]:,}"),
        Fact("By a tie", f"{tally.ties:,}"),
        *(Fact(WORDS[r].capitalize(), Text(f"{n:,}", tone="bad")) for r, n in report.others()),
    ]
    sections = []
    if differences:
        causes: list[Sequence[Value]] = [
            [cause or "none is known: the policies decide otherwise", f"{count:,}"]
            for cause, count in report.causes().most_common(ROWS)
        ]
        heads = [Column("Cause"), Column("Decisions", number=True)]
        sections.append(Section("Causes", [Table("", heads, causes)]))
        rows: list[Sequence[Value]] = [
            [
                time_text(round(difference.time * 1e9)),
                difference.pod,
                difference.theirs.node or "none",
                difference.ours.node or "none",
                why(difference),
                difference.cause,
            ]
            for difference in differences[:ROWS]
        ]
        columns = [Column(n) for n in ("Time", "Pod", "Then", "Now", "Why", "Cause")]
        more = f"and {len(differences) - ROWS:,} more" if len(differences) > ROWS else ""
        table = Table("", columns, rows, more)
        sections.append(Section("Decisions that differ", [table]))
    remarks = [report.source(), *report.notes]
    remarks += [f"{count:,} left out: {reason}" for reason, count in sorted(tally.left_out.items())]
    tone: Tone = "bad" if differences else "good"
    lead = report.lead()
    return Summary(
        "Decisions, made again", lead, sections, "replay", tone, remarks, Facts(facts, big=True)
    )


def replay_page(diff: ReplayDiff) -> Summary:
    """Return the page of a comparison."""
    counts = diff.runs[0].counts
    facts = [
        Fact("Find no node under NEW alone", _toned(counts["unschedulable"], "bad")),
        Fact("Under OLD alone", _toned(counts["schedulable"], "good")),
        Fact("Change their node", f"{counts['moved']:,}"),
        Fact("Pods", f"{diff.pods:,}"),
    ]
    several = len(diff.seeds) > 1
    if several:
        heads = ["", "OLD", "NEW", "NEW - OLD", "95 % interval", ""]
        rows: list[Sequence[Value]] = [list(row) for row in diff.measure_rows()]
    else:
        head, *others = diff.rows()
        heads, rows = list(head), [list(row) for row in others]
    columns = [Column(name, number=0 < i < 5) for i, name in enumerate(heads)]
    sections = [
        Section("Measures", [Table("", columns, rows)]),
        Section("Over time", list(_charts(diff))),
    ]
    tables = moves_tables(diff.runs[0].moves)
    if tables:
        sections.append(Section("Pods that are elsewhere", tables))
    remarks = [*diff.head_lines(), *diff.notes]
    tone: Tone = "bad" if counts["unschedulable"] else "good" if counts["schedulable"] else ""
    return Summary(
        "Recorded traffic, decided again",
        diff.lead(),
        sections,
        "replay",
        tone,
        remarks,
        Facts(facts, big=True),
    )


def _toned(count: int, tone: Tone) -> Text:
    return Text(f"{count:,}", tone=tone if count else "")


def _charts(diff: ReplayDiff) -> Iterator[Chart]:
    """Yield curves of both sides, with the first seed."""
    sides = {"OLD": diff.runs[0].old.windows, "NEW": diff.runs[0].new.windows}
    windows = sides["OLD"]
    x = [(window.start - diff.start) / SECOND for window in windows]
    x.append((windows[-1].end - diff.start) / SECOND)

    def chart(
        key: str, title: str, unit: str, value: Callable[[Window], float | None], note: str = ""
    ) -> Chart:
        series = [
            Series(name, [*(values := [value(w) for w in of]), values[-1]])
            for name, of in sides.items()
        ]
        return Chart(
            key, title, "time", x, series, unit=unit, kind="duration", stepped=True, note=note
        )

    bound = "of the pods that got a node in each window"
    yield chart("p99", "Waiting time, p99", "s", lambda w: w.waiting_p99, bound)
    if any(w.waiting_p50 for of in sides.values() for w in of):
        yield chart("p50", "Waiting time, median", "s", lambda w: w.waiting_p50, bound)
    yield chart("queue", "Longest queue", "pods", lambda w: w.longest_queue)
    for name in windows[0].used:
        if name != "pods":
            title = f"Requested share of {name}"
            yield chart(f"used-{name}", title, "%", partial(_used, name))
    if any(w.evicted for of in sides.values() for w in of):
        yield chart("evicted", "Evicted pods", "pods", lambda w: w.evicted)
    for name in windows[0].measures:
        yield chart(f"measure-{name}", name, "", partial(_measure, name))


def _used(resource: str, window: Window) -> float:
    return window.used.get(resource, 0.0)


def _measure(name: str, window: Window) -> float:
    return window.measures[name]
