"""The timeline: what `simulate --timeline` finds, over time, with a slider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from policy_sched import simulate
from policy_sched.console import trials
from policy_sched.console.pages import page
from policy_sched.console.pages.page import linked
from policy_sched.console.pages.policy_editor import fragment, refused
from policy_sched.console.sources import ClusterSource
from policy_sched.errors import PolicySchedError
from policy_sched.model import SECOND, nanoseconds_of
from policy_sched.web import Column, Fact, Facts, Section, Table, Text, Value, environment

POINTS: Final = 240
"""Points of a curve at most."""
MOST: Final = 50
"""Rows of a table."""
_RETRIES: Final[dict[str, simulate.Retry]] = {"backoff": "Backoff", "at-once": "AtOnce"}


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page: the choices, and where the result is fetched."""
    del results
    chosen = {
        "seed": query.get("seed", "0"),
        "retry": query.get("retry", "backoff"),
        "until": query.get("until"),
    }
    return {
        **chosen,
        "recording": source.recording,
        "result": replace(query, path="/timeline/result").url(),
    }


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a simulation. Raises PolicySchedError for invalid ones."""

    seed: int
    retry: simulate.Retry
    until: int | None

    @classmethod
    def of(cls, query: page.Query) -> Choices:
        """Read the parameters of an address."""
        text = query.get("until")
        try:
            until = nanoseconds_of(text) if text else None
        except ValueError:
            until = 0
        if until is not None and until <= 0:
            raise PolicySchedError(f"{text[:50]!r} is no length of time like 36h or 90m")
        retry = _RETRIES.get(query.get("retry", "backoff"))
        if retry is None:
            raise PolicySchedError("pods are tried again after a backoff, or at-once")
        return cls(query.number("seed", 0), retry, until)


async def played(source: ClusterSource, request: web.Request) -> simulate.TimelineResult:
    """Return the result for an address, simulated or kept. Raises PolicySchedError."""
    chosen = Choices.of(page.Query(request.path, dict(request.query)))
    plans = source.store.current.plans
    objects = await trials.cluster_of(source, request.app)
    kept = request.app[trials.TIMELINES]
    key = (hash(objects), source.store.current.content_hash, chosen)
    result = kept.get(key)
    if result is None:
        question = trials.TimelineQuestion(
            plans, objects, chosen.seed, chosen.until, chosen.retry, source.recording
        )
        result = await request.app[trials.TRIAL_PROCESS].ask(question)
        kept.put(key, result)
    return result


async def result(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return the result of the simulation as a part of the page."""
    assert source is not None, "the page needs a cluster"
    try:
        timeline = await played(source, request)
    except PolicySchedError as error:
        return refused(error)
    query = page.Query("/timeline/at", dict(request.query))
    template = environment("policy_sched.console").get_template("timeline_result.html")
    text = template.render(**values(timeline), moment=query.url(at=None))
    return web.Response(text=text, content_type="text/html")


async def at(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return what is so at one moment, as a part of the page."""
    assert source is not None, "the page needs a cluster"
    try:
        timeline = await played(source, request)
    except PolicySchedError as error:
        return refused(error)
    number = page.Query(request.path, dict(request.query)).number("at", 0)
    return fragment([moment(timeline, number)])


def values(timeline: simulate.TimelineResult) -> page.View:
    """Return the values of a result's template: the report, with a slider above its curves."""
    summary = simulate.timeline_page(timeline)
    charts = simulate.timeline_charts(timeline)
    times = moments(timeline)
    return {
        "summary": summary,
        "note": _note(timeline),
        "last": len(times) - 1,
        "times": [simulate.duration_text(time - timeline.start) for time in times],
        "axis": charts[0].x_name,
        "charts": charts,
        "sections": linked(section for section in summary.sections if section.blocks != charts),
        "first": moment(timeline, 0),
    }


def moments(timeline: simulate.TimelineResult) -> list[int]:
    """Return the times that the slider goes through: those of the curves."""
    return [timeline.start + round(x * SECOND) for x in simulate.timeline_charts(timeline)[0].x]


def _note(timeline: simulate.TimelineResult) -> str:
    if not timeline.lives:
        return "There are no pending pods, so nothing happens."
    if timeline.end == timeline.start:
        return (
            "Everything happens at one moment: no pod has a creationTimestamp after the others, or"
            " the annotation policysched.dev/duration."
        )
    return ""


def moment(timeline: simulate.TimelineResult, number: int) -> Section:
    """Return the state at one of the moments: queue, running pods, and the pods that wait."""
    times = moments(timeline)
    time = times[min(number, len(times) - 1)]
    waits = waiting_at(timeline, time)
    used: list[Fact] = [
        Fact(name, f"{100 * timeline.used[name].at(time) / capacity:.1f} %")
        for name, steps in timeline.allocatable.items()
        if name in timeline.used and (capacity := steps.at(time))
    ]
    before = sum(eviction.at <= time for eviction in timeline.evictions)
    facts = [
        Fact("in the queue", f"{timeline.pending.at(time):,}"),
        Fact("running", f"{timeline.running.at(time):,}"),
        Fact("preemptions so far", f"{before:,}"),
        *used,
    ]
    rows: list[Sequence[Value]] = [
        [
            Text(life.pod, page.pod_href(life.pod)),
            str(life.priority),
            simulate.duration_text(time - life.created),
            _outcome(life, time),
        ]
        for life in waits[:MOST]
    ]
    columns = [
        Column("Pod"),
        Column("Priority", number=True),
        Column("Waits since", number=True),
        Column("Then"),
    ]
    more = f"and {len(waits) - MOST:,} more" if len(waits) > MOST else ""
    title = f"After {simulate.duration_text(time - timeline.start)}"
    table = Table("Pods that wait, the longest first", columns, rows, more, "no pod waits")
    return Section(title, [Facts(facts), table])


def waiting_at(timeline: simulate.TimelineResult, time: int) -> list[simulate.PodTimeline]:
    """Return the pods that have arrived by a time and have no node, the longest waits first."""
    waits = [
        life
        for life in timeline.lives
        if life.created <= time and (life.bound is None or life.bound > time)
    ]
    return sorted(waits, key=lambda life: life.created)


def _outcome(life: simulate.PodTimeline, time: int) -> Value:
    if life.bound is None:
        return Text(f"never placed: {life.message}", tone="bad")
    return Text(
        life.node, page.node_href(life.node), note=f"in {simulate.duration_text(life.bound - time)}"
    )


PAGE: Final = page.Page(
    "/timeline",
    "Timeline",
    "timeline.html",
    view,
    section="/timeline",
    actions={"/timeline/result": result, "/timeline/at": at},
)
