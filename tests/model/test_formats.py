"""Formats of texts: problems in the API server's words.

Durations as people write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, strategies as st

from policy_sched.model import formats
from policy_sched.model.formats import nanoseconds_of
from policy_sched.model.selectors import is_qualified_name, requirement_faults

PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SLASH = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    r" for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
Check = Callable[[str], Iterable[str]]


@pytest.mark.parametrize(
    ("check", "text", "words"),
    [
        (formats.label, "web-1", []),
        (formats.label, "Web", [LABEL]),
        (formats.label, "a.b", ["must not contain dots"]),
        (formats.label, "a" * 64, ["must be no more than 63 bytes"]),
        (formats.subdomain, "a.b-c", []),
        (formats.subdomain, "Bad_Name", [SUBDOMAIN]),
        (formats.subdomain, "a" * 300_000, ["must be no more than 253 bytes"]),
        (formats.qualified, "example.com/MyName", []),
        (formats.qualified, "", ["name part must be non-empty", f"name part {PART}"]),
        (formats.qualified, "/x", ["prefix part must be non-empty"]),
        (formats.qualified, "A/x", [f"prefix part {SUBDOMAIN}"]),
        (
            formats.qualified,
            "a/b/c",
            [
                f"a qualified name {PART} {SLASH}"
            ],
        ),
        (formats.config_key, "..", ["must not be '..'"]),
        (formats.config_key, "..a", ["must not start with '..'"]),
        (formats.port_name, "-", [
            "must contain at least one letter (a-z)", "must not begin or end with a hyphen",
        ]),
        (formats.port_name, "a--b", ["must not contain consecutive hyphens"]),
    ],
)  # fmt: skip
def test_violations_are_reported(check: Check, text: str, words: list[str]) -> None:
    """Valid texts have none."""
    assert list(check(text)) == words


@given(st.text(max_size=70) | st.from_regex(r"\A[a-zA-Z0-9._/-]{0,70}\Z"))
def test_labels_are_what_selectors_take(text: str) -> None:
    """The same keys and values are right for both."""
    assert (not formats.qualified(text)) == is_qualified_name(text)
    assert (not list(formats.label_value(text))) == (not requirement_faults("a", "In", (text,)))


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
def test_parts_of_a_duration_add_up_to_the_nanosecond(
    hours: int, minutes: int, seconds: int, nanos: int
) -> None:
    """To the nanosecond."""
    whole = (hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos
    assert nanoseconds_of(f"{hours}h{minutes}m{seconds}s{nanos}ns") == whole
