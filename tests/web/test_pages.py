"""Pages: what is escaped, what may run, and what a document holds."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from policy_sched.web import asset, document, environment, render, report, served_assets
from tests.web.gallery import gallery
from tests.web.reading import Page

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7*7 }}",
    "a\nb\x00",
    "\u202egnp.exe",
    "half \ud800",
    "x" * 10_000,
)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_is_only_text(name: str) -> None:
    """A page has the same elements whatever a name is, and can be written as UTF-8."""
    page = report(gallery(name))
    assert Page(page).shape == Page(report(gallery("worker"))).shape
    assert page.encode()


def test_no_attribute_holds_a_style_or_a_script() -> None:
    """The policy forbids them, so no template has any."""
    names = {name for _, attributes in Page(report(gallery())).shape for name in attributes}
    assert "style" not in names
    assert not [name for name in names if name.startswith("on")]


def test_only_what_is_shipped_may_run() -> None:
    """The policy of a document has the digest of each style and script in it, and nothing else."""
    page = report(gallery())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    inside = [
        asset(name) for name in ("style.css", "uplot.css", "tables.js", "uplot.js", "charts.js")
    ]
    allowed = re.findall(r"sha256-[\w+/=]+", policy.replace("&#39;", "'"))
    assert allowed == [script.integrity for script in inside]
    assert all(script.text in page for script in inside)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy


def test_nothing_is_loaded() -> None:
    """A document names no other address, and no asset can end its element."""
    elements = Page(report(gallery())).elements
    addresses = [
        a.get("src") or a.get("href") or "" for _, a in elements if {"src", "href"} & set(a)
    ]
    assert all(address.startswith(("data:image/svg+xml;base64,", "#")) for address in addresses)
    inside = ("style.css", "uplot.css", "tables.js", "uplot.js", "charts.js")
    assert not [name for name in inside if re.search("</(style|script)", asset(name).text)]


def test_a_document_without_curves_has_no_scripts() -> None:
    """Scripts are there only for what needs them."""
    page = document("a", "components/badge.html")
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page


def test_a_page_of_a_server_names_its_assets_by_their_content() -> None:
    """Styles and scripts have names that change when they do."""
    page = render("layout.html", navigation=[])
    named = set(re.findall(r'/assets/([^"]+)"', page))
    assert named <= set(served_assets())
    assert re.fullmatch(r"style-[0-9a-f]{12}\.css", asset("style.css").hashed_name)


def test_headings_are_in_order() -> None:
    """One heading for the page, and no level is skipped."""
    levels = [level for level, _ in Page(report(gallery())).headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_a_value_that_is_missing_is_an_error() -> None:
    """A template that names what it was not given does not render."""
    undefined = environment().undefined
    with pytest.raises(Exception, match="navigation") as refused:
        render("layout.html")
    assert undefined.__name__ == "StrictUndefined"
    assert refused.type.__name__ == "UndefinedError"


def test_equal_values_are_equal_bytes() -> None:
    """A report depends on its values alone."""
    assert report(gallery()) == report(gallery())
