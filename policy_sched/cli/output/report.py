"""Writes a report in the form that ``--output`` names, and as the HTML file of ``--report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from policy_sched.cli.output.diagnostics import write_lines
from policy_sched.cli.output.junit_tap_sarif import as_junit, as_tap
from policy_sched.errors import PolicySchedError
from policy_sched.report import (
    CaseReport,
    MarkdownReport,
    RecordReport,
    Report,
    json_text,
    jsonl_text,
    yaml_text,
)
from policy_sched.source import write_file

if TYPE_CHECKING:
    from policy_sched.web import Section, Summary


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


def require_report(path: str | None) -> None:
    """Raise PolicySchedError if a report cannot be written: before the work, not after it."""
    if path is None:
        return
    if not path.endswith((".html", ".htm")):
        raise PolicySchedError(f"--report {path}: name a file that ends in .html")
    if Path(path).is_dir():
        raise PolicySchedError(f"--report {path}: is a directory")
    from policy_sched.web import environment  # noqa: PLC0415  only reports need pages

    environment()


def write_page(path: str, summary: Summary, origin: Section | None = None) -> None:
    """Write a report, and what it was made from. Raises OSError if that fails."""
    from policy_sched.web import report  # noqa: PLC0415  as above

    sections = [*summary.sections, *([] if origin is None else [origin])]
    text = report(replace(summary, sections=sections))
    write_file(path, text.encode(), parents=True)
