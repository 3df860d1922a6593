"""A comment on a pull request: texts of files are shown, and cannot become markup."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from policy_sched.diff.placement_diff import Cause, Move, PlacementDiff, SeedsDiff, Side, Spread
from policy_sched.diff.policy_diff import DIFFERENCES, PolicyDiff, code
from policy_sched.profiles.format.policy_diff import ValueDifference
from policy_sched.profiles.reload.inputs import CompiledFiles
from policy_sched.simulate.report import AppliedPolicy

SET = CompiledFiles(None, (), {})
EVIL = "web`</code><img src=x onerror=a()>|[a](http://b) @octocat **x** <!-- \x1b[31m\n# h\n\\"
SIDE = Side(
    placed=2,
    nodes_in_use=1,
    score=1.0,
    spread=(Spread("example.com/a|b<b>", 1.0, 2.0),),
    preemptions=0,
    policies=(AppliedPolicy("Mine", "default-scheduler", 0, 8152, 0, None, 1213),),
)
RUN = PlacementDiff(
    8152,
    1213,
    SIDE,
    replace(SIDE, placed=1),
    (Move(EVIL, "n1", None, EVIL, Cause.POLICY), Move("default/b", EVIL, "n2", "", Cause.TIE)),
)


def written(*differences: ValueDifference, run: PlacementDiff | SeedsDiff | None = None) -> str:
    """Return the comment of a difference."""
    return "".join(f"{line}\n" for line in PolicyDiff(SET, SET, differences, run).markdown_lines())


@given(st.text())
def test_a_text_is_code_and_nothing_else(text: str) -> None:
    """Either a span of harmless characters, or entities between tags: no markup, no mention."""
    shown = code(text)
    if shown.startswith("`"):
        assert re.fullmatch(r"`[^`<>|\\@*_#!~&\x00-\x1f]+`", shown)
    elif shown:
        inside = shown.removeprefix("<code>").removesuffix("</code>")
        assert re.fullmatch(r"(?:[A-Za-z0-9 /-]|&#\d+;)+", inside)


@pytest.mark.parametrize("seeds", [0, 3])
def test_names_of_pods_and_nodes_are_no_markup(seeds: int) -> None:
    """A pod's name could close the span, end the table, add a link or call a user."""
    run = SeedsDiff(tuple(range(seeds)), (RUN,) * seeds) if seeds else RUN
    text = written(run=run)
    for danger in ("<img", "<b>", "onerror=a()>", "@octocat", "](http", "<!--", "\x1b", "\n# h"):
        assert danger not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1
    assert "`Mine` matched 0 of 8,152 pods, rejected 0 of 1,213 nodes" in text


def test_a_fence_is_longer_than_what_it_holds() -> None:
    """An expression with backticks ended the block."""
    text = written(ValueDifference("policy A: score.expression", "", "```\n<script>\n````"))
    (fence,) = set(re.findall(r"^  (`{5,})", text, re.MULTILINE))
    assert text.count(fence) == 2
    assert f"  {fence}diff\n  + ```\n  + <script>\n  + ````\n  {fence}\n" in text


def test_a_comment_has_its_bounds() -> None:
    """GitHub refuses more than 65,536 characters."""
    many = [ValueDifference(f"policy P{i}", "", "x" * 100_000) for i in range(DIFFERENCES + 7)]
    text = written(*many)
    assert text.count("```diff") == DIFFERENCES
    assert "and 7 more differences" in text
    assert len(text) < 65_536
    assert "The policy sets are the same." in written()
