"""Regular expressions as trees, and a plain simulation of what they match.

Theory of operation. A pattern is made as a tree, printed for RE2, and matched here by sets of
positions: `ends` gives every place where a match that begins at one place may end, which is what
an automaton without memory does. Nothing of this knows RE2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

LETTERS = "abé😀"
#: How a class is written, and which letters it has.
CLASSES = {
    ".": LETTERS,
    "[ab]": "ab",
    "[^a]": "bé😀",
    "[a-c]": "ab",
    r"\w": "ab",
    r"\W": "é😀",
    r"[é-ü]": "é",
    r"\pL": "abé",
    "(?i:B)": "b",
    r"\x{1F600}": "😀",
}


@dataclass(frozen=True)
class Pattern:
    """A node: its kind, what it is written as (leaves), and its parts."""

    kind: str
    text: str = ""
    parts: tuple[Pattern, ...] = ()
    least: int = 0
    most: int | None = None


def written(pattern: Pattern) -> str:
    """Return the pattern as RE2 reads it."""
    inner = [written(part) for part in pattern.parts]
    match pattern.kind:
        case "then":
            return "".join(inner)
        case "or":
            return f"({'|'.join(inner)})"
        case "times":
            return f"(?:{inner[0]}){pattern.text}"
    return pattern.text


def ends(pattern: Pattern, text: str, start: int) -> frozenset[int]:
    """Return where matches that begin at ``start`` may end."""
    match pattern.kind:
        case "then":
            places = frozenset({start})
            for part in pattern.parts:
                places = frozenset().union(*(ends(part, text, place) for place in places))
            return places
        case "or":
            return frozenset().union(*(ends(part, text, start) for part in pattern.parts))
        case "times":
            return frozenset(_times(pattern, text, start))
        case "begin":
            return frozenset({start} if start == 0 else ())
        case "end":
            return frozenset({start} if start == len(text) else ())
    letters = CLASSES.get(pattern.text, pattern.text)
    found = start < len(text) and text[start] in letters
    return frozenset({start + 1} if found else ())


def _times(pattern: Pattern, text: str, start: int) -> Iterator[int]:
    (part,) = pattern.parts
    places, seen, count = {start}, set[int](), 0
    while places and (pattern.most is None or count <= pattern.most):
        if count >= pattern.least:
            yield from places
            if places <= seen:
                return
            seen |= places
        places = {end for place in places for end in ends(part, text, place)}
        count += 1


def found(pattern: Pattern, text: str) -> bool:
    """Tell whether the pattern matches a part of the text."""
    return any(ends(pattern, text, start) for start in range(len(text) + 1))


_LEAVES = st.one_of(
    st.sampled_from(LETTERS).map(lambda letter: Pattern("letter", letter)),
    st.sampled_from(list(CLASSES)).map(lambda text: Pattern("class", text)),
    st.sampled_from([Pattern("begin", "^"), Pattern("end", "$")]),
)
_TIMES = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
    "*?": (0, None),
    "{2}": (2, 2),
    "{1,3}": (1, 3),
    "{2,}": (2, None),
}


def _larger(parts: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    repeated = st.tuples(parts, st.sampled_from(list(_TIMES))).map(
        lambda pair: Pattern("times", pair[1], (pair[0],), *_TIMES[pair[1]])
    )
    return st.one_of(
        several.map(lambda found: Pattern("then", "", found)),
        several.map(lambda found: Pattern("or", "", found)),
        repeated,
    )


PATTERNS = st.recursive(_LEAVES, _larger, max_leaves=7)
TEXTS = st.text(LETTERS, max_size=7)
