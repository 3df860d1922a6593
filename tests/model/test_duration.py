"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.model.formats import nanoseconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("2.5", 2.5),
        ("0", 0),
        ("1m0.5s", 60.5),
        ("3us", 3e-6),
        ("999999999s", 999_999_999),
        ("1000000000s", 1_000_000_000),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """Go's form, or a plain number of seconds."""
    assert nanoseconds_of(text) == round(seconds * 1e9)


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "1h30", "s", "1d", "\u0661s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With the ways to write one."""
    with pytest.raises(ValueError, match="is not a duration"):
        nanoseconds_of(text)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999_999))
def test_parts_add_up(hours: int, minutes: int, seconds: int, nanos: int) -> None:
    """To the nanosecond."""
    whole = (hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos
    assert nanoseconds_of(f"{hours}h{minutes}m{seconds}s{nanos}ns") == whole
