"""Writes diagnostics as text, json and GitHub annotations, and owns the exit codes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TextIO

from policy_sched.errors import Diagnostic, Severity, as_data, bounded, one_line

OK: Final = 0
FAILED: Final = 1
"""Something in the given files is not as it should be."""
UNUSABLE: Final = 2
"""Wrong usage, a file that cannot be read, or an internal error."""
LINTED: Final = 3
"""Warnings and nothing worse, where they are to be fatal."""

STDIN: Final = "-"


Format = Literal["text", "json", "github"]

_COLOURS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}
_GITHUB: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return 1 if there is an error among the diagnostics; warnings and notes pass."""
    return FAILED if any(d.severity is Severity.ERROR for d in diagnostics) else OK


def write_diagnostics(
    diagnostics: Sequence[Diagnostic], stream: TextIO, form: Format = "text"
) -> None:
    """Write the diagnostics in file order, as many of a file as `bounded` leaves."""
    ordered = bounded(diagnostics)
    if form == "json":
        json.dump({"diagnostics": [as_data(d) for d in ordered]}, stream, indent=2)
        stream.write("\n")
    elif form == "github":
        stream.writelines(f"{github(d)}\n" for d in ordered)
    else:
        paint = colours_wanted(stream)
        stream.writelines(f"{_text(d, paint)}\n" for d in ordered)


def write_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Write lines of a report, each of which stays one line whatever names are in it."""
    (stream or sys.stdout).writelines(f"{one_line(line)}\n" for line in lines)


def write_hints(hints: Iterable[str]) -> None:
    """Write hints that make a command faster, on standard error."""
    for hint in hints:
        print(f"policy-sched: {hint}", file=sys.stderr)


def github(diagnostic: Diagnostic) -> str:
    """Return the workflow command that shows the diagnostic beside the line in a pull request.

    Escapes are GitHub's: ``%``, CR and LF everywhere, ``:`` and ``,`` in properties too.
    """
    properties = {
        "file": diagnostic.file,
        "line": str(diagnostic.line),
        "col": str(diagnostic.column),
        "endColumn": str(diagnostic.column + diagnostic.width),
        "title": diagnostic.code,
    }
    shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    lines = [diagnostic.message, diagnostic.context, diagnostic.hint]
    text = "\n".join(line for line in lines if line)
    return f"::{_GITHUB[diagnostic.severity]} {shown}::{_data(text)}"


def require_files(paths: Iterable[str]) -> None:
    """Raise OSError for a path that is not there: that is wrong usage, not an error in a file.

    ``-`` is standard input.
    """
    for path in paths:
        if path != STDIN:
            os.stat(path)


def colours_wanted(stream: TextIO) -> bool:
    """Return whether the stream is a terminal and NO_COLOR is unset (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _text(diagnostic: Diagnostic, paint: bool) -> str:
    text = diagnostic.render()
    if not paint:
        return text
    colour = _COLOURS[diagnostic.severity]
    return re.sub(
        rf"\b{diagnostic.severity} {diagnostic.code}\b",
        lambda match: f"\x1b[1;{colour}m{match[0]}\x1b[0m",
        text,
        count=1,
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
