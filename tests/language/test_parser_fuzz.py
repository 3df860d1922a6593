"""Promises of the parser about malformed text.

Point 4 of the language's test plan: nothing but problems in words, in bounded time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from policy_sched.language.syntax.parser import parse
from tests.examples import scaled

from .strategies import rules

CASES: Final = Path(__file__).with_name("cel_cases.yaml")
EXPRESSION: Final = re.compile(r"expression: '?(.+?)'?$", re.MULTILINE)
POLICIES: Final = Path(__file__).parents[2] / "policies"
TOKENS = [
    *("a", "b.c", "pod", "node", "in", "true", "null", "has", "all", "if", "and", "__"),
    *("1", "0x1f", "1.5", "1e3", "5u", "9223372036854775808", "10Gi", ".5", "1."),
    *(
        '"t"',
        "'t'",
        'r"\\"',
        '"\\q"',
        '"\\u12"',
        '"\\ud800"',
        '"',
        "'",
        '"""',
        "b'x'",
        "`a/b`",
        "`",
    ),
    *("(", ")", "[", "]", "{", "}", ",", ".", ".?", "?.", "[?", "?", ":", "//", "\n", " ", "\t"),
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "!!",
        "==",
        "=",
        "!=",
        "<",
        "<=",
        "&&",
        "&",
        "||",
        "|",
        "@",
        "é",
        "\0",
    ),
]


def promise(text: str) -> None:
    """Parsing gives a tree or coded problems whose places lie inside the text."""
    tree, problems = parse(text)
    assert (tree is None) == bool(problems)
    for problem in problems:
        assert problem.code.startswith("PS")
        assert problem.message
        assert 0 <= problem.start <= problem.end <= len(text) + 1


@given(st.text(max_size=60))
@example("\ud800")
@example("\x00")
@example("")
def test_random_text_is_refused_in_words(text: str) -> None:
    """Random characters give problems, never an exception."""
    promise(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_token_soup_is_refused_in_words(tokens: list[str]) -> None:
    """Random sequences of the language's own tokens give a tree or problems."""
    promise(" ".join(tokens))
    promise("".join(tokens))


@given(rules("filter"), st.data())
def test_damaged_rules_are_refused_in_words(text: str, data: st.DataObject) -> None:
    """A rule with a piece cut out, doubled or replaced gives a tree or problems."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 8)))
    promise(
        text[:start] + data.draw(st.sampled_from([*TOKENS, "", text[start:end] * 2])) + text[end:]
    )


@functools.cache
def corpus() -> Sequence[str]:
    """Return the expressions of the cases in the order of cel-spec's, and of shipped policies."""
    sections = yaml.load(CASES.read_text(encoding="utf-8"), yaml.CSafeLoader)
    found = [case["expr"] for cases in sections.values() for case in cases]
    for path in sorted(POLICIES.glob("*/policy.yaml")):
        found += re.findall(
            r"expression: '?(.+?)'?$", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    return tuple(found)


@settings(max_examples=scaled(300))
@given(st.data())
def test_a_damaged_corpus_is_refused_in_words(data: st.DataObject) -> None:
    """Expressions of users, with pieces of others in them, give a tree or problems."""
    text = data.draw(st.sampled_from(corpus()))
    for _ in range(data.draw(st.integers(1, 3))):
        other = data.draw(st.sampled_from(corpus()))
        start, end = (data.draw(st.integers(0, len(text))) for _ in range(2))
        first, last = (data.draw(st.integers(0, len(other))) for _ in range(2))
        text = text[:start] + other[first:last] + text[end:]
        promise(text)


@given(st.binary(max_size=80))
def test_bytes_that_are_read_as_text_are_refused_in_words(content: bytes) -> None:
    """Bytes of any kind, as a careless reader makes text of them, give a tree or problems."""
    for errors in ("surrogateescape", "replace"):
        promise(content.decode("utf-8", errors))
    promise(content.decode("latin-1"))


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("[", "]"),
        ("!", ""),
        ("-", ""),
        ("f(", ")"),
        ("{1:", "}"),
        ("a.", "b"),
        ("a[", "]"),
        ("true ? 1 : ", "1"),
    ],
)
@pytest.mark.parametrize("times", [50, 3000])
def test_depth_bombs_are_refused_in_words(opening: str, closing: str, times: int) -> None:
    """Nesting beyond any reason is a problem with a code; it exhausts nothing."""
    promise(opening * times + "1" + closing * times)


@pytest.mark.parametrize("joint", [" + ", " && ", " || ", ", "])
def test_long_chains_parse_or_are_refused_in_words(joint: str) -> None:
    """A chain of a thousand terms is no nesting, and gives a tree or a limit's problem."""
    promise("[" + joint.join(["true"] * 1000) + "]")
