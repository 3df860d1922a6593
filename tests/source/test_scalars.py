"""The way back from a decoded scalar to the file is exact for every style.

Point 4 of the language's test plan: the map of positions in YAML.
"""

from __future__ import annotations

import string
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from policy_sched.source import Marked, SourceFile, parse_documents
from policy_sched.source.scalars import scalar_offsets

WORDS = st.text(string.ascii_letters + "éλ€😀_", min_size=1, max_size=4)
BLANKS = st.sampled_from(["", " ", "  ", "   ", "\t"])
BREAKS = st.sampled_from(["\n", "\n", "\n\n", "\n\n\n", "\r\n"])


def only_document(text: str) -> Marked | None:
    """Return the document of a text, None if the text is no YAML."""
    documents, _ = parse_documents(SourceFile("f.yaml", text))
    return documents[0] if documents else None


def assert_exact(text: str, path: tuple[str | int, ...] = ("a",)) -> None:
    """Every character that is not blank maps to itself, blanks to blanks, in order."""
    document = only_document(text)
    if document is None or not isinstance(document.value, dict) or path[0] not in document.value:
        return
    node = document.node(path)
    assert node is not None
    value = node.value
    find = document.scalar_map(path)
    offsets = [find(i) for i in range(len(value) + 1)]
    assert offsets == scalar_offsets(text, node)
    assert all(a < b for a, b in pairwise(offsets)), (text, value, offsets)
    start, end = document.span(path)
    for char, offset in zip(value, offsets, strict=False):
        raw = text[offset]
        if raw == "\\" and document.style(path) == '"':
            continue
        if char in " \n\t":
            assert raw in " \t\r\n", (text, value, offsets)
        else:
            assert char == raw, (text, value, offsets)
        assert start <= offset
    assert offsets[-1] <= len(text)
    assert end <= len(text)


@st.composite
def lines(draw: st.DrawFn, indent: str, *, blanks_first: bool) -> str:
    """Return lines of words that are indented."""
    text = ""
    for _ in range(draw(st.integers(1, 5))):
        body = draw(st.lists(st.tuples(WORDS, BLANKS), min_size=0, max_size=4))
        line = "".join(word + blank for word, blank in body)
        first = draw(st.sampled_from(["", "", "  ", " "])) if blanks_first and line else ""
        text += (indent + first + line if line.strip() else line and "") + draw(BREAKS)
    return text


@given(
    header=st.sampled_from(["|", "|-", "|+", ">", ">-", ">+", "|2", ">2-", "&x |", "!!str >"]),
    body=lines("  ", blanks_first=True),
    tail=st.sampled_from(["", "b: 1\n", "# comment\nb: 1\n", "\n\nb: 1"]),
)
@example(header="|", body="\n\n  a\n    b\n  c\n\n\n", tail="b: 1\n")
@example(header=">", body="  a\n  b\n\n  c\n    d\n    e\n\n  f\n", tail="")
@example(header=">+", body="\n  a\n\n\n", tail="b: 1\n")
@example(header="|2", body="     a\n  b\n", tail="")
@example(header="|", body="   \n  \n", tail="b: 1\n")
@example(header="|+", body="\n\n", tail="b: 1\n")
def test_block_scalars(header: str, body: str, tail: str) -> None:
    """Literal and folded scalars, with every chomping, map each character to its place."""
    assert_exact(f"a: {header}\n{body}{tail}")


@given(words=st.lists(st.tuples(WORDS, st.one_of(BLANKS, BREAKS)), min_size=1, max_size=8))
def test_plain_scalars(words: list[tuple[str, str]]) -> None:
    """Plain scalars over several lines map each character to its place."""
    text = "".join(w + (b + "  " if "\n" in b else b or " ") for w, b in words)
    assert_exact(f"a: {text}\nb: 1\n")
    assert_exact(f"a: [{text}, 1]\nb: 1\n", ("a", 0))


@given(words=st.lists(st.tuples(WORDS | st.just("''"), BLANKS | BREAKS), max_size=8))
def test_single_quoted_scalars(words: list[tuple[str, str]]) -> None:
    """Single-quoted scalars, with doubled quotes, map each character to its place."""
    text = "".join(w + (b + "  " if "\n" in b else b) for w, b in words)
    assert_exact(f"a: '{text}'\nb: 1\n")


ESCAPES = st.sampled_from(
    [r"\n", r"\"", r"\\", r"\x41", r"\u00e9", r"\U0001F600", r"\ ", "\\\n   "]
)


@given(words=st.lists(st.tuples(WORDS | ESCAPES, BLANKS | BREAKS), max_size=8))
@example(words=[("a", " "), ("\\\n   ", ""), ("\n\n  b", "")])
def test_double_quoted_scalars(words: list[tuple[str, str]]) -> None:
    """Double-quoted scalars, with escapes and joined lines, map each character to its place."""
    text = "".join(w + (b + "  " if "\n" in b else b) for w, b in words)
    assert_exact(f'a: "{text}"\nb: 1\n')


@pytest.mark.parametrize(
    ("text", "needle", "position"),
    [
        ("a: node.fre\n", "fre", (1, 9)),
        ("a: 'it''s x'\n", "x", (1, 11)),
        ('a: "tab\\t x"\n', "x", (1, 11)),
        ("a: |\n  one\n  two x\n", "x", (3, 7)),
        ("a: >-\n  one\n  two\n\n  three x\n", "x", (5, 9)),
        ("a: one\n  two\n  x\n", "x", (3, 3)),
        ("é: 1\na: &y |  # why\n  😀 x\n", "x", (3, 5)),
        ("a: !!str 'x'\n", "x", (1, 11)),
    ],
)
def test_position_of_a_word(text: str, needle: str, position: tuple[int, int]) -> None:
    """A word of an expression is found in the line and column where it was written."""
    document = only_document(text)
    assert document is not None
    offset = document.scalar_map(("a",))(document.value["a"].index(needle))
    assert document.file.position(offset) == position


def test_the_end_of_a_scalar_is_behind_its_last_character() -> None:
    """The end of a scalar's text is behind its last character, also beyond the end."""
    document = only_document("a: |\n  one\nb: 'two'\n")
    assert document is not None
    assert document.scalar_map(("a",))(4) == 11
    assert document.scalar_map(("b",))(3) == document.scalar_map(("b",))(99) == 18
