"""Writes a report to standard output, in the form that ``--output`` names."""

from __future__ import annotations

import sys
from typing import cast

from policy_sched.cli.output.diagnostics import write_lines
from policy_sched.cli.output.junit_tap_sarif import as_junit, as_tap
from policy_sched.report import (
    CaseReport,
    MarkdownReport,
    RecordReport,
    Report,
    json_text,
    jsonl_text,
    yaml_text,
)


def write_report(report: Report, form: str) -> None:
    """Write a report as json, yaml, jsonl, markdown, junit or tap, in every other form as text.

    jsonl needs a `RecordReport`, markdown a `MarkdownReport`, junit and tap a `CaseReport`: a verb
    offers those forms only for such reports.
    """
    match form:
        case "json":
            sys.stdout.write(json_text(report.document()))
        case "yaml":
            sys.stdout.write(yaml_text(report.document()))
        case "jsonl":
            sys.stdout.write(jsonl_text(cast("RecordReport", report).records()))
        case "markdown":
            lines = cast("MarkdownReport", report).markdown_lines()
            sys.stdout.writelines(f"{line}\n" for line in lines)
        case "junit":
            sys.stdout.write(as_junit(cast("CaseReport", report).cases()))
        case "tap":
            sys.stdout.write(as_tap(cast("CaseReport", report).cases()))
        case _:
            write_lines(report.text_lines())
