"""Where a policy defines the name at the cursor: a parameter, a variable, a function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from policy_sched.lsp.place import CursorPosition, member_before, place_at, word_before
from policy_sched.profiles.load import parse
from policy_sched.source import Marked, SourceFile

Lines = tuple[int, int, int, int]
"""First line and column, and those behind the last, all from 0, in characters."""


def definition(path: str, text: str, line: int, character: int) -> Lines | None:
    """Return where the name at a cursor (from 0, in characters) is defined, in the same text."""
    lines = text.split("\n")
    shown = lines[line] if line < len(lines) else ""
    inside = re.match(r"\w*", shown[character:])
    end = character + (inside.end() if inside else 0)
    place = place_at(text, line, end)
    if place.before is None or place.section is None:
        return None
    marked = _document(path, text, line)
    if marked is None:
        return None
    found = _defined(marked, place, line)
    if found is None:
        return None
    file = marked.file
    (first, start), (last, after) = (file.position(at) for at in found)
    return first - 1, start - 1, last - 1, after - 1


def _defined(marked: Marked, place: CursorPosition, line: int) -> tuple[int, int] | None:
    """Return the span of the key or name that defines what the place's text ends in."""
    before = place.before or ""
    member = member_before(before)
    if member is not None:
        base, name = member
        if base == "params":
            return _key(marked, ("spec", "params", name))
        return _named(marked, "variables", name) if base == "variables" else None
    name = word_before(before)
    parameter = _parameter(marked, name, line) if "functions" in place.path else None
    return parameter or _named(marked, "functions", name)


def _key(marked: Marked, path: tuple[str | int, ...]) -> tuple[int, int] | None:
    """Return the span of a key, if it is there; the line break behind it is left out."""
    if marked.node(path) is None:
        return None
    start, _ = marked.key_span(path)
    return start, start + len(str(path[-1]))


def _items(marked: Marked, section: str) -> Sequence[Any]:
    spec = marked.value.get("spec") if isinstance(marked.value, dict) else None
    found = spec.get(section) if isinstance(spec, dict) else None
    return found if isinstance(found, list) else ()


def _named(marked: Marked, section: str, name: str) -> tuple[int, int] | None:
    """Return the span of the name of a variable or function."""
    for i, item in enumerate(_items(marked, section)):
        if isinstance(item, dict) and item.get("name") == name:
            return marked.span(("spec", section, i, "name"))
    return None


def _parameter(marked: Marked, name: str, line: int) -> tuple[int, int] | None:
    """Return the span of a parameter of the function in which a line stands."""
    for i, item in enumerate(_items(marked, "functions")):
        path = ("spec", "functions", i)
        first, last = (marked.file.position(at)[0] - 1 for at in marked.span(path))
        params = item.get("params") if isinstance(item, dict) else None
        if first <= line <= last and isinstance(params, dict) and name in params:
            return _key(marked, (*path, "params", name))
    return None


def _document(path: str, text: str, line: int) -> Marked | None:
    """Return the document in which a line stands, without that line if it breaks the YAML."""
    lines = text.split("\n")
    without = "\n".join([*lines[:line], "", *lines[line + 1 :]])
    for attempt in (text, without):
        documents, problems = parse(SourceFile(path, attempt))
        starts = [one.file.position(one.span(())[0])[0] for one in documents]
        before = [one for one, start in zip(documents, starts, strict=True) if start <= line + 1]
        if before and not problems:
            return before[-1]
    return None
