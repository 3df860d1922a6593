"""Results of experiments: curves with bands, paired differences and what is noise, tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from policy_sched import experiments, web
from policy_sched.console.pages.page import Missing, Page, Query, Results, View, address
from policy_sched.errors import PolicySchedError
from policy_sched.profiles.models import Measure

PATH: Final = "/experiments"


def view(source: object, query: Query, results: Results) -> View:
    """Return the values of the page: the experiments, and the one that is shown."""
    del source
    problems: list[str] = []
    folders: list[Path] = []
    for path in results.paths:
        try:
            folders += experiments.folders_of_results(Path(path))
        except PolicySchedError as error:
            problems.append(str(error))
    names = [str(folder) for folder in folders]
    chosen = query.get("of") or (names[0] if len(names) == 1 else "")
    if chosen and chosen not in names:
        raise Missing(f"there are no results in {chosen[:200]}")
    report = None
    if chosen:
        try:
            report = experiments.stored_report(Path(chosen))
        except PolicySchedError as error:
            problems.append(str(error))
    listed = (
        [web.Section("", [_list(folders, problems)])] if len(folders) != 1 and not chosen else []
    )
    return {
        "heading": "Experiments" if report is None else report.name,
        "up": PATH if chosen and len(names) > 1 else "",
        "problems": problems,
        "sections": listed if report is None else sections(report),
    }


def _list(folders: Sequence[Path], problems: list[str]) -> web.Table:
    rows: list[Sequence[web.Value]] = []
    for folder in folders:
        try:
            report = experiments.stored_report(folder)
        except PolicySchedError as error:
            problems.append(str(error))
            continue
        variants = experiments.by_variant(report.results)
        seeds = {task.seed for task, _ in report.results}
        rows.append(
            [
                web.Text(report.name, address(PATH, of=folder)),
                f"{len(report.results):,}",
                f"{len(variants):,}",
                f"{len(seeds):,}",
                str(folder),
            ]
        )
    heads = ("Runs", "Variants", "Seeds")
    columns = [web.Column("Experiment"), *(web.Column(head, number=True) for head in heads)]
    empty = "no folder has results: policy-sched sweep writes them"
    return web.Table(
        "Experiments", [*columns, web.Column("Folder")], rows, empty=empty, sortable=True
    )


def sections(report: experiments.SweepReport) -> list[web.Section]:
    """Return the report of `sweep`, with curves and bars that can be pointed at."""
    page = experiments.sweep_page(report, ())
    parts = page.sections
    head: list[web.Block] = [web.Prose([page.lead]), *([] if page.facts is None else [page.facts])]
    index = next((i for i, section in enumerate(parts) if section.title == experiments.MEASURES), 0)
    return [web.Section("", head), *parts[:index], *_pictures(report), *parts[index:]]


def _pictures(report: experiments.SweepReport) -> list[web.Section]:
    """Return a chart for each measure that has curves, and bars for the others."""
    variants = experiments.by_variant(report.results)
    curved = experiments.curve_names(report.spec) if report.spec.curve is not None else []
    blocks: list[web.Block] = []
    for measure in report.spec.measures:
        if measure.name in curved:
            blocks.append(_curve(report, measure))
            continue
        bars = []
        for variant, runs in variants.items():
            values = experiments.values_of(runs, measure.name)
            if values:
                mean = experiments.distribution(values).mean
                bars.append(
                    web.Bar(variant, [web.BarPart("mean", mean)], experiments.number_text(mean))
                )
        if bars:
            blocks.append(web.Bars(f"{experiments.named(measure)}: means", bars))
    return [web.Section("Measures", blocks, beside=True)] if blocks else []


def _curve(report: experiments.SweepReport, measure: Measure) -> web.Chart:
    by_x = {
        variant: {
            x: experiments.distribution(values)
            for x, values in experiments.points(runs, measure.name)
        }
        for variant, runs in experiments.by_variant(report.results).items()
    }
    x = sorted({at for distributions in by_x.values() for at in distributions})
    series = [
        web.Series(
            variant,
            [distributions[at].median if at in distributions else None for at in x],
            [distributions[at].p25 if at in distributions else None for at in x],
            [distributions[at].p75 if at in distributions else None for at in x],
        )
        for variant, distributions in by_x.items()
    ]
    note = "median, and 25 to 75 % of the runs"
    return web.Chart(
        f"curve-{measure.name}",
        experiments.named(measure),
        experiments.axis_label(report.spec),
        x,
        series,
        note=note,
    )


PAGE: Final = Page(PATH, "Experiments", "experiments.html", view, section=PATH, needs="results")
