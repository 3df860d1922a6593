"""What view models compute: widths, colours, levels, tables."""

from __future__ import annotations

from policy_sched.errors import Diagnostic
from policy_sched.web import Bar, BarPart, Bars, Cell, DiagnosticView, Funnel, Meter
from tests.web.gallery import bars, problem


def test_parts_of_a_bar_follow_each_other() -> None:
    """Parts begin where the one before ends; the longest bar is as wide as the field."""
    bar_list = bars("Spread")
    first, second = (bar_list.segments(bar) for bar in bar_list.bars)
    assert [(part.x, part.width) for part in first] == [(0, 600), (600, 400)]
    assert [(part.x, part.width) for part in second] == [(0, 300)]
    assert [part.title for part in first] == ["Spread: 60", "Fit: 40"]


def test_equal_parts_have_one_colour() -> None:
    """The colour belongs to the name of a part, in all bars."""
    both = Bars(
        "", [Bar("a", [BarPart("x", 1), BarPart("y", 1)], ""), Bar("b", [BarPart("y", 1)], "")]
    )
    assert [part.colour for bar in both.bars for part in both.segments(bar)] == [0, 1, 1]


def test_bars_without_a_length_are_empty() -> None:
    """Bars whose parts are all 0 or less have no parts to draw."""
    none = Bars("", [Bar("a", [BarPart("x", 0), BarPart("y", -1)], "0")])
    assert none.segments(none.bars[0]) == []


def test_the_table_of_bars_has_every_number() -> None:
    """What colours show is there as numbers."""
    table = bars("Spread").table
    assert [column.name for column in table.columns] == ["", "Spread", "Fit", "total"]
    assert table.rows == [["Spread", "60", "40", "100"], ["node-2", "30", "0", "30"]]


def test_a_funnel_over_nothing_has_no_width() -> None:
    """A cluster without nodes divides nothing."""
    assert Funnel("", "nodes", 0, []).width(0) == 0
    assert Funnel("", "nodes", 4, []).width(1) == 250


def test_shares_stay_in_their_field() -> None:
    """Shares below 0 and above 1 are drawn as empty and full."""
    assert [Cell("a", share).level for share in (None, -1, 0, 0.54, 2)] == [
        "x",
        "0",
        "0",
        "5",
        "10",
    ]
    assert [Meter(share, "").width for share in (-1, 0.5, 3)] == [0, 50, 100]


def test_a_problem_marks_its_place() -> None:
    """The source line is split at the place, and the caret stands below it."""
    diagnostic = problem("policy.yaml")
    assert (diagnostic.before, diagnostic.marked, diagnostic.after) == (
        "  - expression: pod.pr",
        "iorty >",
        " 0",
    )
    assert diagnostic.caret == " " * 22 + "^~~~~~~"
    assert diagnostic.tone == "bad"


def test_a_problem_beyond_the_line_and_without_a_line() -> None:
    """A place after the last character is a blank; without a source nothing is marked."""
    end = Diagnostic("a", 1, 4, "PS001", "unexpected end", source_line="a +")
    assert DiagnosticView.of(end).marked == " "
    assert DiagnosticView.of(Diagnostic("a", 1, 4, "PS001", "unexpected end")).marked == ""
