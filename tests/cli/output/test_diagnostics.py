"""Diagnostics on the way out."""

from __future__ import annotations

import io
import json

import pytest

from policy_sched.cli.output.diagnostics import exit_code, github, write_diagnostics
from policy_sched.errors import Diagnostic, Severity

ERROR = Diagnostic("policies/a,b.yaml", 3, 5, "PS101", "100% wrong:\nhere", hint="try x", width=4)
WARNING = Diagnostic("b.yaml", 1, 1, "PS900", "odd", severity=Severity.WARNING)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_warnings_and_notes_do_not_fail_a_command() -> None:
    """Warnings and notes pass."""
    assert exit_code([]) == 0
    assert exit_code([WARNING]) == 0
    assert exit_code([WARNING, ERROR]) == 1


def test_github_annotations_are_escaped() -> None:
    """Percent signs and line breaks everywhere, colons and commas in properties."""
    assert github(ERROR) == (
        "::error file=policies/a%2Cb.yaml,line=3,col=5,endColumn=9,title=PS101"
        "::100%25 wrong:%0Ahere%0Atry x"
    )
    assert github(WARNING).startswith("::warning file=b.yaml,line=1,col=1,")


def test_json_has_every_field() -> None:
    """A program gets all that a person is shown, in file order."""
    stream = io.StringIO()
    write_diagnostics([ERROR, WARNING], stream, "json")
    first, second = json.loads(stream.getvalue())["diagnostics"]
    assert first["file"] == "b.yaml"
    assert first["severity"] == "warning"
    assert second["hint"] == "try x"
    assert (second["line"], second["column"], second["width"]) == (3, 5, 4)


def test_text_has_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours go to terminals, unless NO_COLOR is set."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, coloured = io.StringIO(), Terminal()
    write_diagnostics([WARNING], plain)
    write_diagnostics([WARNING], coloured)
    assert plain.getvalue() == "b.yaml:1:1: warning PS900: odd\n"
    assert coloured.getvalue() == "b.yaml:1:1: \x1b[1;33mwarning PS900\x1b[0m: odd\n"
    monkeypatch.setenv("NO_COLOR", "1")
    quiet = Terminal()
    write_diagnostics([WARNING], quiet)
    assert quiet.getvalue() == plain.getvalue()
