"""Diagnostics: position, message, the line with a caret, and what may help."""

from __future__ import annotations

import pytest

from policy_sched import errors
from policy_sched.source.file import SourceFile, diagnostic


def test_the_caret_stands_under_the_column() -> None:
    """Width underlines, and tabs keep their place."""
    problem = errors.Diagnostic(
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
    problem = errors.Diagnostic("f", 1, 3, "PS001", "x", width=50, source_line="abcd")
    assert problem.render().splitlines()[2].endswith("|   ^~~")


@pytest.mark.parametrize("column", [1, 80, 2500, 4999])
def test_of_a_long_line_the_surroundings_are_shown(column: int) -> None:
    """The caret still points at the same character, and the line is short."""
    line = "".join(chr(ord("a") + i % 26) for i in range(5000))
    rendered = (
        errors.Diagnostic("f", 1, column, "PS001", "x", source_line=line).render().splitlines()
    )
    assert len(rendered[1]) <= errors.WHOLE_LINE + 20
    assert rendered[1][rendered[2].index("^")] == line[column - 1]


def test_an_error_of_an_author_carries_every_diagnostic_in_order() -> None:
    """They are sorted by place, whatever order they were found in."""
    later = errors.Diagnostic("f", 9, 1, "PS001", "later", severity=errors.Severity.WARNING)
    first = errors.Diagnostic("f", 2, 1, "PS001", "first")
    error = errors.PolicyError([later, first])
    assert error.diagnostics == (first, later)
    assert str(error).splitlines()[0].startswith("f:2:1: error")


def test_a_file_with_thousands_of_problems_shows_the_first_hundred() -> None:
    """20,000 duplicate keys gave 20,000 diagnostics; a hundred are shown, errors among them."""
    warnings = [
        errors.Diagnostic("a.yaml", line, 1, "PS404", "unused", severity=errors.Severity.WARNING)
        for line in range(1, 20_001)
    ]
    error = errors.Diagnostic("a.yaml", 30_000, 1, "PS101", "unknown")
    other = errors.Diagnostic("b.yaml", 1, 1, "PS101", "unknown")
    shown = errors.bounded([*warnings, error, other])
    assert len(shown) == errors.MAX_DIAGNOSTICS + 2
    assert error in shown
    assert shown[-2].message == "and 19901 more problems in this file"
    assert shown[-1] == other
    assert errors.bounded(shown) == shown
    assert errors.PolicyError([*warnings, error]).diagnostics[-2] == error


def test_of_a_very_long_line_json_has_the_beginning() -> None:
    """A log of 100 problems of a file on one line repeated the file a hundred times."""
    one = errors.Diagnostic("a.json", 1, 9, "PS702", "unknown", source_line="x" * 1_000_000)
    assert len(errors.as_data(one)["source_line"]) == errors.LONGEST_LINE


def test_of_a_long_line_only_a_part_is_shown() -> None:
    """Each problem of a JSON file on one line showed, and masked, the whole line once more."""
    file = SourceFile("a.json", '{"a": "' + "x" * 100_000 + '", "b": "https://me:pw@h/"}')
    found = diagnostic(file, len(file.text) - 3, "PS702", "unknown key")
    assert len(found.render()) < 2 * errors.WHOLE_LINE + 200
    assert "pw" not in found.render()
    assert diagnostic(file, 3, "PS702", "x").source_line is found.source_line
