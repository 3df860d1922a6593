"""The timeline: what `simulate --timeline` finds, over time, with a slider."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from policy_sched.console.pages.page import Page, Query, Results, View, node_href, pod_href
from policy_sched.console.pages.policy_editor import fragment, refused
from policy_sched.console.sources import Source
from policy_sched.console.trials import TIMELINES, TRIAL_PROCESS, TimelineQuestion, cluster_of
from policy_sched.errors import PolicySchedError
from policy_sched.model import counted, nanoseconds_of
from policy_sched.simulate import (
    Buckets,
    PodTimeline,
    Retry,
    TimelineResult,
    Waiting,
    applied_text,
    bucket_width,
    duration_text,
    never_placed,
    victims_of,
    waiting_by_priority,
)
from policy_sched.web import (
    Chart,
    Column,
    Fact,
    Facts,
    Prose,
    Section,
    Series,
    Table,
    Text,
    Value,
    environment,
)

POINTS: Final = 240
"""Points of a curve at most."""
MOST: Final = 50
"""Rows of a table."""
SECOND: Final = 1_000_000_000
KEPT: Final = 4
"""Results that are kept."""
_RETRIES: Final[dict[str, Retry]] = {"backoff": "Backoff", "at-once": "AtOnce"}


def view(source: Source, query: Query, results: Results) -> View:
    """Return the values of the page: the choices, and where the result is fetched."""
    del source, results
    chosen = {
        "seed": query.get("seed", "0"),
        "retry": query.get("retry", "backoff"),
        "until": query.get("until"),
    }
    return {**chosen, "result": replace(query, path="/timeline/result").url()}


@dataclass(frozen=True, slots=True)
class Choices:
    """What a simulation is run with. Raises PolicySchedError for what makes no sense."""

    seed: int
    retry: Retry
    until: int | None

    @classmethod
    def of(cls, query: Query) -> Choices:
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


async def played(source: Source, request: web.Request) -> TimelineResult:
    """Return the result for an address, simulated or kept. Raises PolicySchedError."""
    chosen = Choices.of(Query(request.path, dict(request.query)))
    plans = source.store.current.plans
    objects = await cluster_of(source, request.app)
    kept = request.app[TIMELINES]
    key = (hash(objects), source.store.current.content_hash, chosen)
    if key not in kept:
        question = TimelineQuestion(plans, objects, chosen.seed, chosen.until, chosen.retry)
        kept[key] = await request.app[TRIAL_PROCESS].ask(question)
        while len(kept) > KEPT:
            kept.pop(next(iter(kept)))
    found: TimelineResult = kept[key]
    return found


async def result(source: Source | None, request: web.Request) -> web.Response:
    """Return the result of the simulation as a part of the page."""
    assert source is not None, "the page needs a cluster"
    try:
        found = await played(source, request)
    except PolicySchedError as error:
        return refused(error)
    query = Query("/timeline/at", dict(request.query))
    template = environment("policy_sched.console").get_template("timeline_result.html")
    text = template.render(**values(found), moment=query.url(at=None))
    return web.Response(text=text, content_type="text/html")


async def at(source: Source | None, request: web.Request) -> web.Response:
    """Return what is so at one moment, as a part of the page."""
    assert source is not None, "the page needs a cluster"
    try:
        found = await played(source, request)
    except PolicySchedError as error:
        return refused(error)
    number = Query(request.path, dict(request.query)).number("at", 0)
    return fragment([moment(found, number)])


def values(found: TimelineResult) -> View:
    """Return the values of a result's template."""
    buckets = fine(found)
    starts = _starts(buckets)
    return {
        "facts": Facts(_facts(found), big=True),
        "note": _note(found),
        "last": len(starts) - 1,
        "times": [duration_text(int(x * SECOND)) for x in starts],
        "charts": charts(found, buckets),
        "sections": [
            *([_preemptions(found)] if found.evictions else []),
            _waiting(found),
            *([_lost(found)] if never_placed(found) else []),
            _policies(found),
            _as_printed(found),
        ],
        "first": moment(found, 0),
    }


def fine(found: TimelineResult) -> Buckets:
    """Return the buckets of the curves."""
    return Buckets.of(replace(found, bucket=bucket_width(found, POINTS)))


def _starts(buckets: Buckets) -> list[float]:
    return [(edge - int(buckets.edges[0])) / SECOND for edge in buckets.edges[:-1].tolist()]


def _facts(found: TimelineResult) -> list[Fact]:
    pods, lost = len(found.lives), len(never_placed(found))
    waiting = Waiting.of(found.lives)
    return [
        Fact("pods placed", f"{pods - lost:,}", f"of {pods:,}, on {counted(found.nodes, 'node')}"),
        Fact("makespan", duration_text(found.end - found.start)),
        Fact("longest queue", f"{max(found.pending.values, default=0):,}", "pods"),
        Fact("waiting, median", duration_text(waiting.p50), f"99 %: {duration_text(waiting.p99)}"),
        Fact("preemptions", f"{len(found.evictions):,}", f"of {counted(victims_of(found), 'pod')}"),
        Fact("attempts", f"{sum(life.attempts for life in found.lives):,}"),
    ]


def _note(found: TimelineResult) -> str:
    if not found.lives:
        return "There are no pending pods, so nothing happens."
    if found.end == found.start:
        return (
            "Everything happens at one moment: no pod has a creationTimestamp after the others, or"
            " the annotation policysched.dev/duration."
        )
    return ""


def charts(found: TimelineResult, buckets: Buckets) -> list[Chart]:
    """Return the curves, all over the same times."""
    x = _starts(buckets)
    shown = [name for name in buckets.percent if any(found.allocatable[name].values)]
    waits = _waits(found, buckets)
    preemptions = _preempted(found, buckets)

    def chart(name: str, title: str, unit: str, series: Sequence[Series], high: float) -> Chart:
        axis = "since the start"
        return Chart(name, title, axis, x, series, unit, "duration", stepped=True, high=high)

    pods = [
        Series("in the queue, at most", [float(one) for one in buckets.pending]),
        Series("running, mean", [round(float(one), 3) for one in buckets.running]),
    ]
    shares = [Series(name, [round(float(v), 3) for v in buckets.percent[name]]) for name in shown]
    return [
        chart("queue", "Queue and running pods", "pods", pods, 1.0),
        chart("used", "Utilisation: requested of allocatable", "%", shares, 100.0),
        chart("waits", "Waiting time of the pods that were bound", "s", waits, 1.0),
        chart("preemptions", "Preemptions", "", [Series("preemptions", preemptions)], 1.0),
    ]


def _waits(found: TimelineResult, buckets: Buckets) -> list[Series]:
    """Return median and 90 % of the waits of the pods that were bound in each bucket."""
    by_bucket: defaultdict[int, list[PodTimeline]] = defaultdict(list)
    for life in found.lives:
        if life.bound is not None:
            by_bucket[_bucket(buckets, life.bound)].append(life)
    each = [Waiting.of(by_bucket[i]) for i in range(len(buckets.pending))]
    return [
        Series("median", [one.p50 / SECOND if one.pods else None for one in each]),
        Series("90 %", [one.p90 / SECOND if one.pods else None for one in each]),
    ]


def _preempted(found: TimelineResult, buckets: Buckets) -> list[float]:
    counts = Counter(_bucket(buckets, one.at) for one in found.evictions)
    return [float(counts[i]) for i in range(len(buckets.pending))]


def _bucket(buckets: Buckets, time: int) -> int:
    """Return the number of the bucket that a time is in."""
    number = int(buckets.edges.searchsorted(time, side="right")) - 1
    return min(max(number, 0), len(buckets.pending) - 1)


def moment(found: TimelineResult, number: int) -> Section:
    """Return the state at the start of a bucket: queue, running pods, and the pods that wait."""
    buckets = fine(found)
    time = int(buckets.edges[min(number, len(buckets.pending) - 1)])
    waits = waiting_at(found, time)
    used: list[Fact] = [
        Fact(name, f"{100 * found.used[name].at(time) / capacity:.1f} %")
        for name, steps in found.allocatable.items()
        if name in found.used and (capacity := steps.at(time))
    ]
    before = sum(one.at <= time for one in found.evictions)
    facts = [
        Fact("in the queue", f"{found.pending.at(time):,}"),
        Fact("running", f"{found.running.at(time):,}"),
        Fact("preemptions so far", f"{before:,}"),
        *used,
    ]
    rows: list[Sequence[Value]] = [
        [
            Text(life.pod, pod_href(life.pod)),
            str(life.priority),
            duration_text(time - life.created),
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
    title = f"After {duration_text(time - found.start)}"
    table = Table("Pods that wait, the longest first", columns, rows, more, "no pod waits")
    return Section(title, [Facts(facts), table])


def waiting_at(found: TimelineResult, time: int) -> list[PodTimeline]:
    """Return the pods that have arrived by a time and have no node, the longest waits first."""
    waits = [
        life
        for life in found.lives
        if life.created <= time and (life.bound is None or life.bound > time)
    ]
    return sorted(waits, key=lambda life: life.created)


def _outcome(life: PodTimeline, time: int) -> Value:
    if life.bound is None:
        return Text(f"never placed: {life.message}", tone="bad")
    return Text(life.node, node_href(life.node), note=f"in {duration_text(life.bound - time)}")


def _waiting(found: TimelineResult) -> Section:
    named = {f"priority {p}": waiting for p, waiting in waiting_by_priority(found).items()}
    if len(named) != 1:
        named = {"all": Waiting.of(found.lives), **named}
    rows: list[Sequence[Value]] = [
        [name, f"{w.pods:,}", *map(duration_text, (w.p50, w.p90, w.p99, w.longest))]
        for name, w in named.items()
    ]
    heads = ("Pods", "50 %", "90 %", "99 %", "longest")
    columns = [Column("Pods with"), *(Column(head, number=True) for head in heads)]
    return Section("Waiting", [Table("From creation to binding", columns, rows)])


def _preemptions(found: TimelineResult) -> Section:
    rows: list[Sequence[Value]] = [
        [
            duration_text(one.at - found.start),
            Text(one.pod, pod_href(one.pod)),
            Text(one.node, node_href(one.node)),
            ", ".join(one.victims),
        ]
        for one in found.evictions[:MOST]
    ]
    count = len(found.evictions)
    more = f"and {count - MOST:,} more" if count > MOST else ""
    columns = [Column("After"), Column("Pod"), Column("Takes"), Column("From")]
    return Section("Preemptions", [Table(f"Preemptions ({count:,})", columns, rows, more)])


def _lost(found: TimelineResult) -> Section:
    lost = never_placed(found)
    rows: list[Sequence[Value]] = [
        [Text(life.pod, pod_href(life.pod)), str(life.attempts), life.message]
        for life in lost[:MOST]
    ]
    more = f"and {len(lost) - MOST:,} more" if len(lost) > MOST else ""
    columns = [Column("Pod"), Column("Attempts", number=True), Column("Last message")]
    title = f"Never placed ({len(lost):,})"
    return Section(title, [Table("Pods without a node at the end", columns, rows, more)])


def _policies(found: TimelineResult) -> Section:
    rows: list[Sequence[Value]] = [[one.policy, applied_text(one)] for one in found.policies]
    columns = [Column("Policy"), Column("Applied to")]
    table = Table("Policies in force", columns, rows, empty="only the default profile decides")
    return Section("Policies", [table])


def _as_printed(found: TimelineResult) -> Section:
    """Return the buckets that `simulate --timeline` prints."""
    buckets = Buckets.of(found)
    shown = [name for name in buckets.percent if any(found.allocatable[name].values)]
    rows: list[Sequence[Value]] = [
        [
            duration_text(start - found.start),
            f"{buckets.pending[i]}",
            f"{buckets.running[i]:.1f}",
            *(f"{buckets.percent[name][i]:.1f} %" for name in shown),
        ]
        for i, start in enumerate(buckets.edges[:-1].tolist())
    ]
    columns = [
        Column("From"),
        *(Column(name, number=True) for name in ("Queue", "Running", *shown)),
    ]
    note = [Text("As simulate --timeline prints them.", tone="dim")]
    return Section("Intervals", [Prose(note), Table("Intervals of equal length", columns, rows)])


PAGE: Final = Page(
    "/timeline",
    "Timeline",
    "timeline.html",
    view,
    section="/timeline",
    actions={"/timeline/result": result, "/timeline/at": at},
)
