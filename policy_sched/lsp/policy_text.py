"""What the policy around the cursor defines, as far as its text can be read while it is typed."""

from __future__ import annotations

import re
from typing import Final

from policy_sched.errors import PolicyError
from policy_sched.language.check import check_beside
from policy_sched.language.diagnostics import PolicySource, Text
from policy_sched.language.values import Type
from policy_sched.profiles.load import load_policy_document, parse, policy_source
from policy_sched.source import SourceFile

_NOTHING: Final = PolicySource("")
_CHAIN: Final = r"[A-Za-z_]\w*(?:\.\??\w+|\[[^\[\]]*\]|\([^()]*\))*"
_LOOP: Final = re.compile(
    rf"({_CHAIN})\.(?:all|exists|exists_one|existsOne|map|filter|sum|optMap|optFlatMap)"
    r"\(\s*(\w+)\s*,"
)
_MEMBER: Final = re.compile(rf"({_CHAIN})\.\??(\w*)$")
_WORD: Final = re.compile(r"(?<![\w.])(\w*)$")


def source_at(path: str, text: str, line: int) -> PolicySource:
    """Return the policy in which a line (from 0) stands; an empty one if it cannot be read.

    A line that breaks the YAML is left out.
    """
    lines = text.split("\n")
    without = "\n".join([*lines[:line], "", *lines[line + 1 :]])
    for attempt in (text, without):
        documents, problems = parse(SourceFile(path, attempt))
        if problems and attempt is text:
            continue
        starts = [one.file.position(one.span(())[0])[0] for one in documents]
        before = [one for one, start in zip(documents, starts, strict=True) if start <= line + 1]
        if not before:
            continue
        loaded, _ = load_policy_document(before[-1])
        if loaded is None:
            continue
        try:
            return policy_source(loaded)
        except PolicyError:
            return _NOTHING
    return _NOTHING


def member_before(before: str) -> tuple[str, str] | None:
    """Return what stands before the last dot of a rule's text, and the beginning of the member."""
    found = _MEMBER.search(before)
    return None if found is None else (found[1], found[2])


def word_before(before: str) -> str:
    """Return the name, or its beginning, in which a rule's text ends."""
    found = _WORD.search(before)
    return "" if found is None else found[1]


def type_of(expression: str, before: str, source: PolicySource) -> Type | None:
    """Return the type of an expression at the end of ``before``; None if it has none.

    The variables of loops that are open there stand for an element of what is looped over.
    """
    for name, operand in reversed(_loops(before)):
        expression = re.sub(rf"(?<![\w.\"']){name}(?!\w)", f"({operand})[0]", expression)
    for text in (expression, expression.replace("[0]", ".value()"), f"({expression})"):
        checked, _ = check_beside(Text(text), "any", source)
        if checked is not None:
            return checked.match_conditions[0].core.type
    return None


def locals_in(before: str) -> list[str]:
    """Return the variables of the loops that are open at the end of a rule's text."""
    return [name for name, _ in _loops(before)]


def _loops(before: str) -> list[tuple[str, str]]:
    found = []
    for match in _LOOP.finditer(before):
        inner = before[match.start(2) :]
        if inner.count("(") >= inner.count(")"):
            found.append((match[2], match[1]))
    return found
