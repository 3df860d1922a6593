"""Regular expressions: RE2 against a plain simulation, and patterns that ruin other engines.

Point 7 of the language's test plan.
"""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import example, given, strategies as st

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.test_compile import attempt, rule

from .harness import checked, evaluate, rows_of
from .oracle_world import World
from .patterns import PATTERNS, TEXTS, Pattern, found, written

NOTHING: Final = Pattern("then")


def literal(text: str) -> str:
    """Return a text as an expression writes it."""
    return json.dumps(text, ensure_ascii=False)


@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=3))
@example(Pattern("or", "", (NOTHING, Pattern("letter", "a"))), ["", "b"])
def test_matches_is_what_the_simulation_says(pattern: Pattern, texts: list[str]) -> None:
    """A constant pattern, one of the pod and texts of nodes, of pods and constants all agree."""
    pod = PodInfo.of(make_pod("p", annotations={"re": written(pattern), "text": texts[0]}))
    nodes = [make_node(f"n{i}", annotations={"text": text}) for i, text in enumerate(texts)]
    world = World(nodes, [])
    expected = [found(pattern, text) for text in texts]
    constant = literal(written(pattern))
    for text in (
        f'node.annotations["text"].matches({constant})',
        'node.annotations["text"].matches(pod.annotations["re"])',
    ):
        result = evaluate(text, world, pod)
        assert result is not None
        assert [outcome.value for outcome in result.vector()] == expected
        assert [result.scalar(row).value for row in range(len(texts))] == expected
    for text in (
        f'pod.annotations["text"].matches({constant})',
        f"{literal(texts[0])}.matches({constant})",
    ):
        result = evaluate(text, world, pod)
        assert result is not None
        assert result.scalar(0).value == expected[0]


@given(PATTERNS, TEXTS)
def test_find_gives_a_part_that_matches(pattern: Pattern, text: str) -> None:
    """`find` gives the leftmost match, or nothing where there is none."""
    world = World([make_node("n", annotations={"text": text})], [])
    result = evaluate(
        f'node.annotations["text"].find({literal(written(pattern))})',
        world,
        PodInfo.of(make_pod("p")),
    )
    assert result is not None
    (outcome,) = result.vector()
    assert result.scalar(0) == outcome
    assert outcome.value in text
    if not found(pattern, text):
        assert outcome.value == ""


#: Patterns that take exponential time where an engine goes back, and the letters that do it.
RUINOUS: Final = (
    ("^(a+)+$", "a"),
    ("^(a|aa)+$", "a"),
    ("^(a|a?)+$", "a"),
    ("^([a-zA-Z]+)*$", "a"),
    ("^(.*a){20}$", "b"),
    ("^(a?){40}a{40}$", "b"),
    (r"^(\w+\s?)*$", "a"),
    ("^((a*)*)*$", "a"),
)


@pytest.mark.parametrize(("pattern", "letter"), RUINOUS)
def test_no_pattern_takes_long(pattern: str, letter: str) -> None:
    """Each is done with 100,000 letters that almost match: another engine would never end."""
    text = letter * 100_000 + "!"
    pod = PodInfo.of(make_pod("p", annotations={"text": text, "re": pattern}))
    for rule_text in (
        f'pod.annotations["text"].matches({literal(pattern)})',
        'pod.annotations["text"].matches(pod.annotations["re"])',
    ):
        result = evaluate(rule_text, World([make_node("n")], []), pod)
        assert result is not None
        assert result.scalar(0).value is False
        assert result.vector()[0].value is False


@pytest.mark.parametrize(
    "pattern", [r"(a)\\1", "(?=a)b", "(?!a)b", "(?<=a)b", "(a", "a{1001}", "[z-a]", "a" * 513]
)
def test_invalid_patterns_are_refused(pattern: str) -> None:
    """Back references, looking around, what is broken or too long: PS012, or an error."""
    _, problems = checked(f'node.name.matches("{pattern}")')
    assert [p.code for p in problems] == ["PS012"]
    pod = PodInfo.of(make_pod("p", annotations={"re": pattern.replace("\\\\", "\\")}))
    result = evaluate('node.name.matches(pod.annotations["re"])', World([make_node("n")], []), pod)
    assert result is not None
    assert result.vector()[0].error == "conversion"
    assert result.scalar(0).error == "conversion"


def test_a_pattern_of_each_node_is_refused() -> None:
    """A pattern is known before the node is: PS506."""
    _, problems = attempt(filter=rule("node.name.matches(node.kubeletVersion)"))
    assert [p.code for p in problems] == ["PS506"]


def test_texts_are_searched_not_matched_whole() -> None:
    """A pattern without anchors is found anywhere; a dot matches no line feed."""
    world, pod = World([make_node("n", annotations={"t": "x\ny"})], []), PodInfo.of(make_pod("p"))
    cases = {"y": True, "^y": False, "x.y": False, "(?s)x.y": True, "(?m)^y": True, "": True}
    for pattern, expected in cases.items():
        text = f'node.annotations["t"].matches({literal(pattern)})'
        assert [o.value for o in rows_of(text, world, pod)] == [expected]
