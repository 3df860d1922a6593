"""A rollout: where it is, both sides' measures, what would abort it, and the end of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from aiohttp import web

from policy_sched.console.pages import page
from policy_sched.console.sources import ClusterSource
from policy_sched.rollout import (
    Action,
    Phase,
    RolloutReport,
    RuleReport,
    measure_text,
    seconds_text,
)
from policy_sched.web import (
    Badge,
    Block,
    Column,
    Fact,
    Facts,
    Meter,
    Prose,
    Section,
    Table,
    Text,
    Tone,
    Value,
)

PATH: Final = "/rollout"
HASH: Final = 12
"""Hexadecimal digits that are shown of a hash."""
WHO: Final = "the console"
_TONES: Final[dict[str, Tone]] = {
    Phase.PROGRESSING: "info",
    Phase.PROMOTED: "good",
    Phase.ABORTED: "bad",
    Phase.REPLACED: "warn",
    "done": "good",
    "current": "info",
    "next": "dim",
    "holds": "bad",
    "does not hold": "good",
    "fails": "warn",
    "waits": "dim",
}


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page."""
    del query, results
    report = None if source.rollout is None else source.rollout.report()
    going_on = report is not None and report.phase == Phase.PROGRESSING
    return {
        "sections": [] if report is None else sections(report),
        "name": "" if report is None else report.name,
        "candidate": report.candidate if report is not None and going_on else "",
        "shown": "" if report is None else report.candidate[:HASH],
    }


def sections(report: RolloutReport) -> list[Section]:
    """Return what is shown of a rollout."""
    parts = [
        Section("", _head(report)),
        Section("Steps", [_steps(report)]),
        Section("Abort rules", [_rules(report.abort_when)]),
        Section("Measures since the step began", [_measures(report)]),
    ]
    if report.differences:
        parts.append(Section("Last differences", [_differences(report)]))
    return parts


def _head(report: RolloutReport) -> list[Block]:
    phase: Value = Badge(report.phase, _TONES.get(report.phase, ""))
    facts = [
        Fact("phase", phase, report.reason),
        Fact("step", f"{report.step} of {len(report.steps)}"),
        Fact("since", report.since),
        Fact("stable", Text(report.stable[:HASH], code=True)),
        Fact("candidate", Text(report.candidate[:HASH], code=True)),
    ]
    told: list[Block] = []
    if report.message:
        told.append(Prose([Text(report.message, tone=_TONES.get(report.phase, ""))]))
    told += [Prose([Text(each, tone="warn")]) for each in report.untried]
    return [Facts(facts), *told]


def _steps(report: RolloutReport) -> Table:
    decided = report.measures["candidate"].asked
    rows: list[Sequence[Value]] = []
    for step in report.steps:
        least = seconds_text(step.seconds)
        time: Value = least or "-"
        decisions: Value = f"{step.decisions:,}"
        if step.status == "current" and report.phase == Phase.PROGRESSING:
            if step.seconds:
                driven = f"{seconds_text(report.elapsed) or '0s'} of {least}"
                time = Meter(report.elapsed / step.seconds, driven, "info")
            made = f"{decided:,} of {decisions}"
            decisions = Meter(decided / step.decisions, made, "info")
        rows.append([step.step, time, decisions, Badge(step.status, _TONES[step.status])])
    columns = [Column("Step"), Column("At least"), Column("Decisions"), Column("Status")]
    return Table("Steps", columns, rows, caption_hidden=True)


def _rules(rules: Sequence[RuleReport]) -> Table:
    rows: list[Sequence[Value]] = []
    for rule in rules:
        figures = [f"{name} {measure_text(name, number)}" for name, number in rule.figures.items()]
        verdict = Badge(rule.verdict, _TONES[rule.verdict])
        note = f"{rule.verdict}: {rule.note}" if rule.note else ""
        rows.append(
            [
                Text(rule.expression, code=True, note=rule.message),
                Badge(note, verdict.tone) if note else verdict,
                ", ".join(figures),
            ]
        )
    columns = [Column("Rule", wide=True), Column("Now"), Column("Figures", wide=True)]
    empty = "no rule aborts it: only you do"
    return Table("Abort rules", columns, rows, empty=empty, caption_hidden=True)


def _measures(report: RolloutReport) -> Table:
    rows: list[Sequence[Value]] = [*report.measured()]
    columns = [
        Column("Measure"),
        Column("Stable", number=True),
        Column("Candidate", number=True),
    ]
    return Table("Measures", columns, rows, caption_hidden=True)


def _differences(report: RolloutReport) -> Table:
    rows: list[Sequence[Value]] = [
        [
            Text(each.pod, page.pod_href(each.pod)),
            each.result,
            *(Text(n, page.node_href(n)) if n else "-" for n in (each.stable, each.candidate)),
        ]
        for each in reversed(report.differences)
    ]
    columns = [Column("Pod"), Column("Result"), Column("Stable"), Column("Candidate")]
    return Table("Differences", columns, rows, caption_hidden=True)


async def ask(
    action: Action, source: ClusterSource | None, request: web.Request
) -> web.StreamResponse:
    """Promote or abort the candidate that the page showed, and lead back to the page."""
    if request.method != "POST":
        raise web.HTTPMethodNotAllowed(request.method, ["POST"])
    sent = await request.post()
    control = None if source is None else source.rollout
    if control is None or control.report() is None:
        raise web.HTTPNotFound(text="nothing is rolled out")
    candidate = sent.get("candidate")
    if not isinstance(candidate, str) or not candidate:
        raise web.HTTPBadRequest(text="the form names no candidate")
    refusal = control.request(action, candidate, WHO)
    if refusal:
        raise web.HTTPConflict(text=refusal)
    return web.Response(status=303, headers={"Location": PATH})


PAGE: Final = page.Page(
    PATH,
    "Rollout",
    "rollout.html",
    view,
    section=PATH,
    needs="running",
    actions={
        f"{PATH}/promote": partial(ask, "promote"),
        f"{PATH}/abort": partial(ask, "abort"),
    },
)
