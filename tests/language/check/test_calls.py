"""Promises of the checks of constant texts and of string literals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.check.calls import (
    bad_duration,
    bad_pattern,
    bad_quantity,
    bad_selector,
    bad_semver,
    bad_timestamp,
)
from policy_sched.language.syntax.ast_builder import unquote

GOOD: list[tuple[Callable[[str], str | None], str]] = [
    *((bad_duration, t) for t in ("90s", "1h30m", "1.5h", "-5m", "0", "100ms", "1us1ns", ".5s")),
    *(
        (bad_timestamp, t)
        for t in (
            "2024-05-01T12:00:00Z",
            "2024-05-01T12:00:00.123456789+02:00",
            "0001-01-01T00:00:00Z",
        )
    ),
    *((bad_quantity, t) for t in ("500m", "2", "10Gi", "1e3", "-1", "0.5")),
    *((bad_semver, t) for t in ("1.36.0", "0.0.1-alpha.1+build.5", "1.0.0-x-y")),
    *(
        (bad_selector, t)
        for t in (
            "",
            "a",
            "!a",
            "a=b",
            "a == b",
            "a!=b",
            "a in (b, c),!d",
            "x.io/a notin (b)",
            "a > 5",
        )
    ),
    *((bad_pattern, t) for t in ("", "a+", r"\d{2}", "(?i)x", "^a|b$")),
]
BAD: list[tuple[Callable[[str], str | None], str]] = [
    *((bad_duration, t) for t in ("", "5", "s", "1d", "1h 30m", "320000000000s")),
    *(
        (bad_timestamp, t)
        for t in (
            "",
            "2024-05-01",
            "2024-05-01t12:00:00Z",
            "2024-02-30T00:00:00Z",
            "2024-05-01T25:00:00Z",
            "0000-01-01T00:00:00Z",
        )
    ),
    *((bad_quantity, t) for t in ("", "x", "10 Gi", "1GiB", "--1")),
    *((bad_semver, t) for t in ("", "1.36", "v1.36.0", "01.2.3", "1.2.3-01")),
    *((bad_selector, t) for t in (",", "a,", "a in b", "a in ()x", "a b", "=b", "a in (b", "-a")),
    *((bad_pattern, t) for t in ("(", "(?=a)", r"\1", "a**", "x" * 513)),
]


@pytest.mark.parametrize(("check", "text"), GOOD)
def test_good_texts_pass(check: Callable[[str], str | None], text: str) -> None:
    """A text of the right form has nothing wrong with it."""
    assert check(text) is None


@pytest.mark.parametrize(("check", "text"), BAD)
def test_bad_texts_are_refused_in_words(check: Callable[[str], str | None], text: str) -> None:
    """A text of another form gets the end of a sentence."""
    words = check(text)
    assert words is not None
    assert words.startswith("is ")


@given(st.text(max_size=20))
def test_checks_never_raise(text: str) -> None:
    """Any text at all is either good or refused in words."""
    for check in (bad_duration, bad_timestamp, bad_quantity, bad_semver, bad_selector, bad_pattern):
        check(text)


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ('"a"', "a"),
        ("'a'", "a"),
        ('"""a"b"""', 'a"b'),
        ("'''a\nb'''", "a\nb"),
        (r'r"\d"', r"\d"),
        (r"R'''\n'''", r"\n"),
        (r'"\a\b\f\n\r\t\v\\\?\"\'\`"', "\a\b\f\n\r\t\v\\?\"'`"),
        (r'"\x41\u00e9\U0001F600\101"', "A\u00e9\U0001f600A"),
        ('""', ""),
        ('""""""', ""),
    ],
)
def test_a_literal_is_the_text_that_it_stands_for(token: str, value: str) -> None:
    """A literal is the text that it stands for."""
    assert unquote(token, 0) == (value, [])


@pytest.mark.parametrize(
    ("token", "start", "end"),
    [
        (r'"a\q"', 12, 14),
        (r'"\x4"', 11, 14),
        (r'"\ud800"', 11, 17),
        (r'"\U00110000"', 11, 21),
        (r'"\8"', 11, 13),
        (r'"\18"', 11, 14),
        (r'"\400"', 11, 13),
        (r'"""\q"""', 13, 15),
    ],
)
def test_bad_escapes_have_their_place(token: str, start: int, end: int) -> None:
    """Each bad escape is one problem that covers it."""
    _, (problem,) = unquote(token, 10)
    assert (problem.code, problem.start, problem.end) == ("PS003", start, end)
