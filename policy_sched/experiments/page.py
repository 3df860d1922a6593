"""The page of a sweep: what differs and what is noise, figures, all measures, the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched import web
from policy_sched.experiments import statistics
from policy_sched.experiments.figures import Drawn
from policy_sched.experiments.report import SweepReport
from policy_sched.experiments.results import by_variant, comparisons, values_of
from policy_sched.experiments.sweep import AsRun
from policy_sched.simulate import DIGITS, origin

MEASURES: Final = "All measures"
EXPERIMENT: Final = "The experiment as it ran"
"""Headings of the page."""
SEEDS: Final = 30
"""Seeds that are named."""
ROWS: Final = 500
"""Rows of a table of hashes."""
_TONES: Final[dict[str, web.Tone]] = {"better": "good", "worse": "bad", "different": "info"}


def sweep_page(report: SweepReport, drawn: Sequence[Drawn]) -> web.Summary:
    """Return the report with its figures."""
    sections = []
    if report.failures:
        texts = [f"{task.variant}, seed {task.seed}: {why}" for task, why in report.failures]
        failed: list[web.Value] = [web.Text(text, tone="bad") for text in texts]
        sections.append(web.Section("Runs without a result", [web.Prose(failed, points=True)]))
    compared = _comparison(report)
    if compared is not None:
        sections.append(compared)
    if drawn:
        pictures = [web.Picture(figure.title, figure.write("svg").strip()) for figure in drawn]
        sections.append(web.Section("Figures", pictures, beside=True))
    if report.results:
        sections.append(web.Section(MEASURES, [_measures(report)]))
    if report.as_run is not None:
        sections.append(web.Section(EXPERIMENT, [web.Source(report.name, report.as_run.text)]))
        sections.append(_origin(report, report.as_run))
    verdicts = {comparison.verdict for *_, comparison in comparisons(report.spec, report.results)}
    few = statistics.Significance.TOO_FEW in verdicts
    tone: web.Tone = "bad" if report.failures else "warn" if few else "good"
    facts = _numbers(report)
    return web.Summary(report.name, _lead(report), sections, "sweep", tone, facts=facts)


def _origin(report: SweepReport, as_run: AsRun) -> web.Section:
    """Return what the results were made from."""
    seeds = list(dict.fromkeys(task.seed for task, _ in report.results))
    facts = [
        web.Fact("Objects", as_run.objects),
        web.Fact("Hash of the objects", web.Text(as_run.digest[:DIGITS], code=True)),
        web.Fact("Newest object", as_run.newest or "no dates"),
        web.Fact("Seeds", ", ".join(map(str, seeds[:SEEDS])) + ", ..." * (len(seeds) > SEEDS)),
    ]
    decided: list[list[web.Value]] = []
    for variant, (whole, policies) in as_run.variants.items():
        decided.append([variant, web.Text("all of it", tone="dim"), _hash(whole)])
        decided += [[variant, name, _hash(digest)] for name, digest in policies.items()]
    files: list[list[web.Value]] = [[path, _hash(digest)] for path, digest in as_run.files.items()]
    more = "experiment.json has all of them" if max(len(decided), len(files)) > ROWS else ""
    heads = [web.Column(head) for head in ("Variant", "Policy", "Hash")]
    tables = [web.Table("What decided", heads, decided[:ROWS], more)]
    if files:
        columns = [web.Column("File"), web.Column("SHA-256")]
        tables.append(web.Table("Files", columns, files[:ROWS], more))
    return origin(facts, {}, *tables, program=as_run.program)


def _hash(digest: str) -> web.Text:
    return web.Text(digest[:DIGITS], code=True)


def _lead(report: SweepReport) -> str:
    """Return how many of the differences are more than noise, or that too few seeds can tell."""
    compared = list(comparisons(report.spec, report.results))
    if not compared:
        return "There is one variant, or no seed that variants share: nothing is compared."
    return statistics.told(
        compared[0][0], [(pairs, comparison) for *_, pairs, comparison in compared]
    )


def _numbers(report: SweepReport) -> web.Facts:
    seeds = {task.seed for task, _ in report.results}
    failures = str(len(report.failures))
    facts = [
        web.Fact("Runs", f"{len(report.results):,}"),
        web.Fact(
            "Without a result", web.Text(failures, tone="bad") if report.failures else failures
        ),
        web.Fact("Variants", f"{len(by_variant(report.results)):,}"),
        web.Fact("Seeds", f"{len(seeds):,}"),
        web.Fact("Measures", f"{len(report.spec.measures):,}"),
    ]
    return web.Facts(facts, big=True)


def _comparison(report: SweepReport) -> web.Section | None:
    """Return the differences from the first variant, what is noise in grey."""
    compared = list(comparisons(report.spec, report.results))
    if not compared:
        return None
    measures = {measure.name: measure for measure in report.spec.measures}
    rows: list[list[web.Value]] = []
    for _, variant, name, pairs, comparison in compared:
        words = statistics.verdict_text(comparison, measures[name], pairs)
        interval = comparison.difference
        rows.append(
            [
                variant,
                statistics.named(measures[name]),
                statistics.number_text(comparison.new),
                statistics.signed(interval.mean),
                f"{statistics.signed(interval.low)} .. {statistics.signed(interval.high)}",
                web.Badge(words, _TONES[words]) if words in _TONES else web.Text(words, tone="dim"),
            ]
        )
    columns = [
        web.Column("Variant"), web.Column("Measure"), web.Column("Mean", True),
        web.Column("Difference", True), web.Column("95 % interval", True),
        web.Column("What it says"),
    ]  # fmt: skip
    title = f"Differences from {compared[0][0]}"
    return web.Section(title, [web.Table("Over equal seeds", columns, rows, sortable=True)])


def _measures(report: SweepReport) -> web.Table:
    rows: list[list[web.Value]] = []
    for variant, runs in by_variant(report.results).items():
        for measure in report.spec.measures:
            values = values_of(runs, measure.name)
            if values:
                spread = statistics.distribution(values)
                numbers = map(
                    statistics.number_text, (spread.mean, spread.median, spread.p25, spread.p75)
                )
                rows.append([variant, statistics.named(measure), str(spread.count), *numbers])
    heads = ("Runs", "Mean", "Median", "25 %", "75 %")
    columns = [
        web.Column("Variant"),
        web.Column("Measure"),
        *(web.Column(head, True) for head in heads),
    ]
    return web.Table("Over all seeds", columns, rows, sortable=True)
