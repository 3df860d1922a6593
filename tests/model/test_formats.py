"""Formats of texts: problems in the API server's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, strategies as st

from policy_sched.model import formats
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
