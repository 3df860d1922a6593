"""Diagnostics: position, message, the line with a caret, and what may help."""

from __future__ import annotations

import pytest

from policy_sched.errors import WHOLE_LINE, Diagnostic, PolicyError, Severity


def test_the_caret_stands_under_the_column() -> None:
    """Width underlines, and tabs keep their place."""
    problem = Diagnostic(
        "f.yaml",
        7,
        4,
        "PS102",
        "no field",
        "did you mean 'x'?",
        "policy P",
        width=3,
        source_line="\t- abc: 1",
    )
    assert problem.render().splitlines() == [
        "f.yaml:7:4: error PS102: no field",
        "    7 | \t- abc: 1",
        "      | \t  ^~~",
        "   = policy P",
        "   = did you mean 'x'?",
    ]


def test_the_caret_never_runs_past_the_line() -> None:
    """A width beyond the end of the line is cut."""
    problem = Diagnostic("f", 1, 3, "PS001", "x", width=50, source_line="abcd")
    assert problem.render().splitlines()[2].endswith("|   ^~~")


@pytest.mark.parametrize("column", [1, 80, 2500, 4999])
def test_of_a_long_line_the_surroundings_are_shown(column: int) -> None:
    """The caret still points at the same character, and the line is short."""
    line = "".join(chr(ord("a") + i % 26) for i in range(5000))
    rendered = Diagnostic("f", 1, column, "PS001", "x", source_line=line).render().splitlines()
    assert len(rendered[1]) <= WHOLE_LINE + 20
    assert rendered[1][rendered[2].index("^")] == line[column - 1]


def test_an_error_of_an_author_carries_every_diagnostic_in_order() -> None:
    """They are sorted by place, whatever order they were found in."""
    later = Diagnostic("f", 9, 1, "PS001", "later", severity=Severity.WARNING)
    first = Diagnostic("f", 2, 1, "PS001", "first")
    error = PolicyError([later, first])
    assert error.diagnostics == (first, later)
    assert str(error).splitlines()[0].startswith("f:2:1: error")
