"""Promises of reading types."""

from __future__ import annotations

import pytest

from policy_sched.language.values import types


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "list(Pod)",
        "list(double)",
        "quantity",
        "map(string, list(int))",
        "optional(Taint)",
        "{name: string, weight: int}",
        "list({a: list(int)})",
    ],
)
def test_types_read_back(text: str) -> None:
    """A type's text is the text that it was read from."""
    assert str(types.parse_type(text, records=("Pod", "Taint"))) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends too early"),
        ("strin", "no type is called 'strin'"),
        ("list(int", "ends too early"),
        ("list int", "expected '\\('"),
        ("int)", "unexpected '\\)'"),
        ("map(double, int)", "keys are string, int or bool"),
        ("{a: int", "ends too early"),
        ("{a: int;", "expected '}'"),
        ("T", "no type is called 'T'"),
        ("raw", "no type is called 'raw'"),
        ("list(" * 20 + "int" + ")" * 20, "nested too deeply"),
    ],
)
def test_bad_types_are_refused_in_words(text: str, words: str) -> None:
    """A text that is no type is refused with a sentence."""
    with pytest.raises(ValueError, match=words):
        types.parse_type(text)
