"""The page of a sweep: what differs and what is noise, figures, all measures, the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.experiments.figures import Drawn
from policy_sched.experiments.report import SweepReport
from policy_sched.experiments.results import by_variant, comparisons, values_of
from policy_sched.experiments.statistics import distribution
from policy_sched.experiments.words import named, number_text, signed, told, verdict_text
from policy_sched.web import (
    Badge,
    Column,
    Fact,
    Facts,
    Picture,
    Prose,
    Section,
    Source,
    Summary,
    Table,
    Text,
    Tone,
    Value,
)

MEASURES: Final = "All measures"
EXPERIMENT: Final = "The experiment"
"""Headings of the page."""
_TONES: Final[dict[str, Tone]] = {"better": "good", "worse": "bad", "different": "info"}


def sweep_page(report: SweepReport, drawn: Sequence[Drawn], experiment: str) -> Summary:
    """Return the report; ``experiment`` is the text of the experiment's file."""
    sections = []
    if report.failures:
        texts = [f"{task.variant}, seed {task.seed}: {why}" for task, why in report.failures]
        failed: list[Value] = [Text(one, tone="bad") for one in texts]
        sections.append(Section("Runs without a result", [Prose(failed, points=True)]))
    compared = _comparison(report)
    if compared is not None:
        sections.append(compared)
    if drawn:
        pictures = [Picture(one.title, one.write("svg").strip()) for one in drawn]
        sections.append(Section("Figures", pictures, beside=True))
    if report.results:
        sections.append(Section(MEASURES, [_measures(report)]))
    sections.append(Section(EXPERIMENT, [Source(report.name, experiment)]))
    tone: Tone = "bad" if report.failures else "good"
    facts = _numbers(report)
    return Summary(report.name, _lead(report), sections, "sweep", tone, facts=facts)


def _lead(report: SweepReport) -> str:
    """Return how many of the differences are more than noise, or that too few seeds can tell."""
    found = list(comparisons(report.spec, report.results))
    if not found:
        return "There is one variant, or no seed that variants share: nothing is compared."
    return told(found[0][0], [(pairs, one) for *_, pairs, one in found])


def _numbers(report: SweepReport) -> Facts:
    seeds = {task.seed for task, _ in report.results}
    failures = str(len(report.failures))
    facts = [
        Fact("Runs", f"{len(report.results):,}"),
        Fact("Without a result", Text(failures, tone="bad") if report.failures else failures),
        Fact("Variants", f"{len(by_variant(report.results)):,}"),
        Fact("Seeds", f"{len(seeds):,}"),
        Fact("Measures", f"{len(report.spec.measures):,}"),
    ]
    return Facts(facts, big=True)


def _comparison(report: SweepReport) -> Section | None:
    """Return the differences from the first variant, what is noise in grey."""
    found = list(comparisons(report.spec, report.results))
    if not found:
        return None
    measures = {measure.name: measure for measure in report.spec.measures}
    rows: list[list[Value]] = []
    for _, variant, name, pairs, one in found:
        words = verdict_text(one, measures[name], pairs)
        interval = one.difference
        rows.append(
            [
                variant,
                named(measures[name]),
                number_text(one.new),
                signed(interval.mean),
                f"{signed(interval.low)} .. {signed(interval.high)}",
                Badge(words, _TONES[words]) if words in _TONES else Text(words, tone="dim"),
            ]
        )
    columns = [
        Column("Variant"), Column("Measure"), Column("Mean", True), Column("Difference", True),
        Column("95 % interval", True), Column("What it says"),
    ]  # fmt: skip
    title = f"Differences from {found[0][0]}"
    return Section(title, [Table("Over equal seeds", columns, rows, sortable=True)])


def _measures(report: SweepReport) -> Table:
    rows: list[list[Value]] = []
    for variant, runs in by_variant(report.results).items():
        for measure in report.spec.measures:
            values = values_of(runs, measure.name)
            if values:
                one = distribution(values)
                numbers = map(number_text, (one.mean, one.median, one.p25, one.p75))
                rows.append([variant, named(measure), str(one.count), *numbers])
    heads = ("Runs", "Mean", "Median", "25 %", "75 %")
    columns = [Column("Variant"), Column("Measure"), *(Column(head, True) for head in heads)]
    return Table("Over all seeds", columns, rows, sortable=True)
