"""Turning constants of an expression into labels, so that a case runs at another level too."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Final

from policy_sched.language import typed
from policy_sched.language.types import BOOL, DOUBLE, INT, STRING

LITERAL: Final = re.compile(r"-?[0-9.]|[rR]?[\"']|true$|false$")
#: How a label's text becomes a value of each type.
READING: Final = {INT: "int({})", DOUBLE: "double({})", STRING: "{}", BOOL: "bool({})"}


def constants(tree: typed.Core) -> Iterator[typed.Const]:
    """Yield every constant of a tree."""
    if isinstance(tree, typed.Const):
        yield tree
    for field in dataclasses.fields(tree):
        part = getattr(tree, field.name)
        for inner in part if isinstance(part, tuple) else (part,):
            if isinstance(inner, typed.Core):
                yield from constants(inner)


def label_text(value: object) -> str:
    """Return a constant as a label's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def lifted(
    text: str, tree: typed.Core, owner: str, accepts: Callable[[str], bool]
) -> tuple[str, dict[str, str]]:
    """Return the text with its constants read from labels of ``owner``, and those labels.

    A constant whose place takes nothing else (a pattern, a quantity) stays: ``accepts`` is asked.
    """
    found = {
        (c.span.start, c.span.end): c
        for c in constants(tree)
        if c.type in READING and LITERAL.match(text[c.span.start : c.span.end])
    }
    labels: dict[str, str] = {}
    for number, (place, constant) in enumerate(sorted(found.items(), reverse=True)):
        read = READING[constant.type].format(f'{owner}.labels["c{number}"]')
        candidate = text[: place[0]] + read + text[place[1] :]
        if accepts(candidate):
            text = candidate
            labels[f"c{number}"] = label_text(constant.value)
    return text, labels
