"""Moments in layouts of Go's time package."""

from __future__ import annotations

import pytest

from policy_sched.language.stdlib.builtins_time import text_of_timestamp, timestamp_in_layout
from policy_sched.language.values import Fault


@pytest.mark.parametrize(
    ("text", "layout", "moment"),
    [
        ("2026-01-05", "2006-01-02", "2026-01-05T00:00:00Z"),
        ("2026-01-28T17-27-46Z", "2006-01-02T15-04-05Z", "2026-01-28T17:27:46Z"),
        ("mon JAN  2 15:04:05 2006", "Mon Jan _2 15:04:05 2006", "2006-01-02T15:04:05Z"),
        (
            "Monday, 02-Jan-06 15:04:05 MST",
            "Monday, 02-Jan-06 15:04:05 MST",
            "2006-01-02T15:04:05Z",
        ),
        (
            "Mon, 02 Jan 2006 15:04:05 -0700",
            "Mon, 02 Jan 2006 15:04:05 -0700",
            "2006-01-02T22:04:05Z",
        ),
        (
            "2026-03-01T08:00:00.25+02:00",
            "2006-01-02T15:04:05.999Z07:00",
            "2026-03-01T06:00:00.25Z",
        ),
        ("2026-03-01T08:00:00Z", "2006-01-02T15:04:05.999Z0700", "2026-03-01T08:00:00Z"),
        ("2026-03-01 08:00:00.125", "2006-01-02 15:04:05.000", "2026-03-01T08:00:00.125Z"),
        ("2026-03-01 08:00:00,5", "2006-01-02 15:04:05", "2026-03-01T08:00:00.5Z"),
        ("2026-3-1 5:06 pm", "2006-1-2 3:04 pm", "2026-03-01T17:06:00Z"),
        ("12:30AM 1 March 69", "03:04PM 2 January 06", "1969-03-01T00:30:00Z"),
        ("2026/3/10 8", "2006/1/_2 15", "2026-03-10T08:00:00Z"),
        ("at 7h of 2026", "at 15h of 2006", "2026-01-01T07:00:00Z"),
    ],
)
def test_a_layout_reads_what_go_reads(text: str, layout: str, moment: str) -> None:
    """Elements of the reference time stand for themselves, everything else is literal."""
    assert text_of_timestamp(timestamp_in_layout(text, layout)) == moment


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("yesterday", "2006-01-02"),
        ("2026-02-30", "2006-01-02"),
        ("2026-1-05", "2006-01-02"),
        ("2026-01-05 ", "2006-01-02"),
        ("13:00PM 2026", "03:04PM 2006"),
        ("2026-03-01 08:00:00.5", "2006-01-02 15:04:05.000"),
        ("15:04", "15:04"),
        ("060 2026", "002 2006"),
        ("1" * 200 + "x", "1" * 200),
        ("2" * 513, "2" * 513),
    ],
)
def test_other_texts_are_no_moments(text: str, layout: str) -> None:
    """Also days that no month has, moments without a year, and texts that go on for long."""
    with pytest.raises(Fault):
        timestamp_in_layout(text, layout)
