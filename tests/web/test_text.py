"""Texts of clusters on pages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from policy_sched.web import json_for_script, visible
from policy_sched.web.components import visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node-1", "node-1"),
        ("a\tb", "a\tb"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\e[31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half \ud800", "half \\ud800"),
        ("::1", "::1"),
        ("שלום", "שלום"),
    ],
)
def test_what_cannot_be_seen_is_an_escape(text: str, shown: str) -> None:
    """Line breaks, controls and marks that turn the writing are shown; words stay as they are."""
    assert visible(text) == shown


def test_lines_stay_lines() -> None:
    """In a text of several lines, line breaks are kept and everything else is an escape."""
    assert visible_lines("a\r\nb\x00\n\u202ec") == "a\nb\\x00\n\\u202ec"


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_survives_a_script_element_and_cannot_end_it(data: object) -> None:
    """Data is the same after reading it, and holds no character that HTML knows."""
    text = json_for_script(data)
    assert json.loads(text) == data
    assert not set("<>&") & set(text)
    assert text.isascii()
