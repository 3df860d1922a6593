"""Turning constants of an expression into labels, so that a case runs at another level too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from policy_sched.language.syntax import ast
from policy_sched.language.syntax.parser import parse

LITERAL: Final = re.compile(r"-?[0-9.]|[rR]?[\"']|true$|false$")
#: How a label's text becomes a value of each type.
READING: Final[dict[type, str]] = {int: "int({})", float: "double({})", str: "{}", bool: "bool({})"}

#: A constant: where it starts and ends in the text, and its value.
Place = tuple[int, int, bool | int | float | str]


def constants(text: str) -> list[Place]:
    """Return every constant that stands in a text as such, from left to right."""
    node, _ = parse(text)
    if node is None:
        return []
    found = {
        (n.span.start, n.span.end): n.value
        for n, _ in ast.walk(node)
        if isinstance(n, ast.Literal) and LITERAL.match(text[n.span.start : n.span.end])
    }
    return [(*place, value) for place, value in sorted(found.items())]


def label_text(value: object) -> str:
    """Return a constant as a label's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def lifted(text: str, owner: str, accepts: Callable[[str], bool]) -> tuple[str, dict[str, str]]:
    """Return the text with its constants read from labels of ``owner``, and those labels.

    A constant whose place takes nothing else (a pattern, a quantity) stays: ``accepts`` is asked.
    """
    places = list(enumerate(reversed(constants(text))))
    whole = text
    for number, place in places:
        whole = _with_label(whole, owner, number, place)
    if accepts(whole):
        return whole, {f"c{number}": label_text(place[2]) for number, place in places}
    labels: dict[str, str] = {}
    for number, place in places:
        candidate = _with_label(text, owner, number, place)
        if accepts(candidate):
            text = candidate
            labels[f"c{number}"] = label_text(place[2])
    return text, labels


def _with_label(text: str, owner: str, number: int, place: Place) -> str:
    start, end, value = place
    read = READING[type(value)].format(f'{owner}.labels["c{number}"]')
    return text[:start] + read + text[end:]
