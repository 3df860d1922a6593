"""The page of a test run: what differs, the files, and what tests have seen of each rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from policy_sched import web
from policy_sched.errors import Diagnostic
from policy_sched.model import counted
from policy_sched.policytest.coverage import LocationCoverage, counts_text, lack_text, percent
from policy_sched.policytest.report import ScenarioReport, StepResult, value_text

ROWS: Final = 500
"""Rows of a table of differences."""
LEGEND: Final = (
    "Green: tests have seen every value. Red: a rule lacks one. Yellow: a condition does."
)


def scenarios_page(report: ScenarioReport, problems: Sequence[Diagnostic] = ()) -> web.Summary:
    """Return the report of a test run; ``problems``: of files that could not be run."""
    wrong = [result for result in report.results if not result.ok]
    sections = []
    if problems:
        sections.append(
            web.Section("Problems", [web.DiagnosticView.of(problem) for problem in problems])
        )
    if wrong:
        sections.append(web.Section("Differences", [_differences(wrong)]))
    if report.results:
        sections.append(web.Section("Files", [_files(report.results)]))
    if report.coverage is not None:
        sections.append(web.Section("Rule coverage", list(_coverage(report.coverage))))
        sections += [_sources(report.coverage)] if report.coverage else []
    lead = "Every step is as expected." if not wrong else _lead(wrong)
    lead = "Files have problems." if problems and not wrong else lead
    tone: web.Tone = "bad" if wrong or problems else "good"
    facts = _numbers(report)
    return web.Summary(report.last_line(), lead, sections, "test", tone, facts=facts)


def _lead(wrong: Sequence[StepResult]) -> str:
    scenarios = len({(result.file, result.scenario) for result in wrong})
    steps = counted(len(wrong), "step")
    differ = "differs" if len(wrong) == 1 else "differ"
    return f"{steps} of {counted(scenarios, 'scenario')} {differ} from what is expected."


def _numbers(report: ScenarioReport) -> web.Facts:
    wrong = sum(not result.ok for result in report.results)
    facts = [
        web.Fact(
            "As expected", f"{len(report.results) - wrong:,}", f"of {len(report.results):,} steps"
        ),
        web.Fact("Different", web.Text(f"{wrong:,}", tone="bad" if wrong else "")),
        web.Fact("Files", f"{len({step.file for step in report.results}):,}"),
    ]
    if report.coverage is not None:
        rules = [coverage.covered for coverage in report.coverage if coverage.location.is_rule]
        note = f"{sum(rules):,} of {len(rules):,} rules"
        facts.append(web.Fact("Rule coverage", f"{percent(report.coverage):.1f} %", note))
    return web.Facts(facts, big=True)


def _differences(wrong: Sequence[StepResult]) -> web.Table:
    rows: list[list[web.Value]] = [
        [
            result.scenario,
            result.pod,
            difference.field,
            value_text(difference.expected),
            web.Text(value_text(difference.got), tone="bad"),
            web.Text(result.file, tone="dim"),
        ]
        for result in wrong
        for difference in result.differences
    ]
    heads = ("Scenario", "Pod", "Field", "Expected", "Got", "File")
    more = f"and {len(rows) - ROWS:,} more, which --output json has" if len(rows) > ROWS else ""
    return web.Table("Field by field", [web.Column(head) for head in heads], rows[:ROWS], more)


def _files(results: Sequence[StepResult]) -> web.Table:
    rows: list[list[web.Value]] = []
    for file, of_file in groupby(results, key=lambda result: result.file):
        steps = [step for step in of_file if not step.skipped]
        good = sum(result.ok for result in steps)
        state = (
            web.Badge("as expected", "good") if good == len(steps) else web.Badge("differs", "bad")
        )
        scenarios = len({result.scenario for result in steps})
        rows.append([file, str(scenarios), f"{good} of {len(steps)}", state])
    columns = [
        web.Column("File"), web.Column("Scenarios", True), web.Column("Steps as expected", True),
        web.Column(""),
    ]  # fmt: skip
    return web.Table("In the order in which they ran", columns, rows)


def _coverage(coverages: Sequence[LocationCoverage]) -> Iterator[web.Block]:
    """Yield a row for each policy file, and one for each rule that lacks something."""
    rows: list[list[web.Value]] = []
    for file, of_file in groupby(coverages, key=lambda coverage: coverage.location.file):
        locations = list(of_file)
        share = percent(locations)
        tone: web.Tone = "good" if share == 100 else "warn"
        rows.append([file, web.Meter(share / 100, f"{share:.1f} %", tone), counts_text(locations)])
    columns = [web.Column("Policy file"), web.Column("Rules"), web.Column("Seen")]
    yield web.Table("By file", columns, rows, empty="no policy was tested")
    lacking: list[list[web.Value]] = [
        [
            f"{at.policy}.{at.path}",
            web.Text(lack_text(coverage), tone="bad" if at.is_rule else "warn"),
            web.Text(at.text, code=True),
            web.Text(f"{at.file}:{at.line}:{at.column}", tone="dim"),
        ]
        for coverage in coverages
        if not coverage.covered
        for at in [coverage.location]
    ]
    heads = ("Rule", "Lacks", "Expression", "Place")
    if lacking:
        yield web.Table("What tests have not seen", [web.Column(head) for head in heads], lacking)


def _sources(coverages: Iterable[LocationCoverage]) -> web.Section:
    """Return the source of each policy, with what tests have seen of its rules."""
    sources = []
    for file, of_file in groupby(coverages, key=lambda coverage: coverage.location.file):
        locations = list(of_file)
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # the tables have its rules
        by_line = groupby(locations, key=lambda coverage: coverage.location.line)
        marks = {line: _mark(list(of_line)) for line, of_line in by_line}
        sources.append(
            web.Source(file, text, marks, folded=all(coverage.covered for coverage in locations))
        )
    return web.Section("Sources", sources, LEGEND)


def _mark(locations: Sequence[LocationCoverage]) -> web.Badge:
    """Return what tests have seen of the rules and conditions that begin on a line."""
    lacking = [coverage for coverage in locations if not coverage.covered]
    if not lacking:
        return web.Badge("", "good")
    tone: web.Tone = "bad" if any(coverage.location.is_rule for coverage in lacking) else "warn"
    words = dict.fromkeys(
        lack_text(coverage)
        if coverage.location.is_rule
        else f"{coverage.location.text}: {lack_text(coverage)}"
        for coverage in lacking
    )
    return web.Badge("; ".join(words), tone)
