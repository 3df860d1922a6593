"""The page docs/console.md: its pictures, its options, and the expressions that it names."""

from __future__ import annotations

import re
from inspect import signature

from policy_sched.cli.console import console
from policy_sched.cli.options.console_flags import ConsoleFlags
from policy_sched.console.pages import ALL, Query, Results, overview
from tests.console.browsing import ROOT
from tests.console.clusters import node, of_objects

PAGE = (ROOT / "docs" / "console.md").read_text("utf-8")
LARGEST = 150_000
"""Bytes of a picture."""


def test_pictures_are_there_and_small() -> None:
    """Each picture that the page and the README show is a small PNG with a text; none is unused."""
    shown = re.findall(r"!\[(.+?)\]\((images/.+?)\)", PAGE)
    assert len(shown) >= 6
    for text, path in shown:
        file = ROOT / "docs" / path
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG"), path
        assert len(content) < LARGEST, path
        assert len(text) > 20, path
    pictures = {f"images/{file.name}" for file in (ROOT / "docs" / "images").glob("console-*")}
    assert pictures == {path for _, path in shown}
    readme = (ROOT / "README.md").read_text("utf-8")
    first_screen = readme.partition("\n## ")[0]
    assert re.findall(r"!\[.+?\]\(docs/(images/.+?)\)", first_screen) == [shown[0][1]]


def test_options_are_those_of_the_verb() -> None:
    """Every option in the table exists."""
    rows = re.findall(r"^\| `(?:run )?--([a-z]+)", PAGE, re.MULTILINE)
    verb = {*signature(console).parameters, *signature(ConsoleFlags).parameters}
    assert rows == ["cluster", "kubeconfig", "results", "console"]
    assert set(rows) <= verb


def test_pages_are_described() -> None:
    """Every entry of the navigation has its paragraph."""
    for page in ALL:
        assert not page.title or f"**{page.title}" in PAGE, page.title


def test_expressions_have_values() -> None:
    """The examples of colours are valid on every node."""
    matches = re.findall(r"such as `(.+?)` or `(.+?)`", PAGE)
    source = of_objects([node("a"), node("b", taint="x")])
    for expression in matches[0]:
        query = Query("/", {"colour": "expression", "expression": expression})
        colouring = overview.view(source, query, Results())["colouring"]
        assert not colouring.failure
        assert not colouring.problems
        assert {share for share, _ in colouring.shares.values()} <= {0.0, 1.0}
