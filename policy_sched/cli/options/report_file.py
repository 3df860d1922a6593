"""The option ``--report FILE.html``: what a command found as one HTML file."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from policy_sched.errors import PolicySchedError
from policy_sched.source import write_file
from policy_sched.web import Section, Summary, environment, report


def require_report(path: str | None) -> None:
    """Raise PolicySchedError if a report cannot be written: before the work, not after it."""
    if path is None:
        return
    if not path.endswith((".html", ".htm")):
        raise PolicySchedError(f"--report {path}: name a file that ends in .html")
    if Path(path).is_dir():
        raise PolicySchedError(f"--report {path}: is a directory")
    environment()


def write_page(path: str, summary: Summary, origin: Section | None = None) -> None:
    """Write a report, and what it was made from. Raises OSError if that fails."""
    sections = [*summary.sections, *([] if origin is None else [origin])]
    text = report(replace(summary, sections=sections))
    write_file(path, text.encode(), parents=True)
