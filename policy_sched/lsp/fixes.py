"""Quick fixes: what the hint of a problem says, done, if it really mends it.

Theory of operation. Hints are for people ("did you mean 'free'?", "write clamp(..., 0, 100), or add
normalize"). What they offer is put in the place of what is underlined, the file is checked again,
and only what makes the problem go, and no new slip come, is offered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from policy_sched.errors import Diagnostic

_MEANT: Final = re.compile(r"did you mean (?P<quote>['\"`])(?P<word>.+?)(?P=quote)\?")
_WRITE: Final = re.compile(
    r"write (?:`(?P<code>[^`]+)`|(?P<text>.+?))(?=,? or | instead\b| around\b| to | for |$)"
)
_WHOLE: Final = "..."
#: Codes that a fix may not bring: YAML, syntax, names and types.
_SLIPS: Final = ("PS0", "PS1", "PS2", "PS701", "PS702", "PS703")

Check: TypeAlias = Callable[[str], Sequence[Diagnostic]]
"""From a text to all that is wrong with it."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A problem, and the text that mends it in the place of what is underlined."""

    problem: Diagnostic
    new_text: str

    @property
    def title(self) -> str:
        """What an editor shows in its menu."""
        shown = " ".join(self.new_text.split())
        return f"Write {shown if len(shown) <= 60 else f'{shown[:57]}...'}"


def fixes(text: str, first: int, last: int, check: Check) -> Iterator[Fix]:
    """Yield the fixes of problems on some lines of a text, from 0."""
    found = check(text)
    for problem in found:
        if first <= problem.line - 1 <= last:
            fix = _fix(text, problem, found, check)
            if fix is not None:
                yield fix


def _fix(text: str, problem: Diagnostic, found: Sequence[Diagnostic], check: Check) -> Fix | None:
    lines = text.split("\n")
    row, start = problem.line - 1, problem.column - 1
    if row >= len(lines):
        return None
    shown, end = lines[row], start + problem.width
    for offered in _offers(problem, shown[start:end]):
        for written in _spellings(offered, shown[:start], shown[end:]):
            lines[row] = shown[:start] + written + shown[end:]
            if _mends(problem, found, check("\n".join(lines))):
                return Fix(problem, written)
    return None


def _offers(problem: Diagnostic, underlined: str) -> Iterator[str]:
    """Yield what the words of a problem offer in the place of what is underlined."""
    for words in (problem.message, problem.hint):
        meant = _MEANT.search(words)
        if meant is not None:
            quote = underlined[:1] if underlined[:1] in ("'", '"') else ""
            yield f"{quote}{meant['word']}{quote}"
        write = _WRITE.match(words)
        if write is not None:
            code = write["code"] or write["text"]
            yield code.replace(_WHOLE, underlined)


def _spellings(offered: str, before: str, after: str) -> Iterator[str]:
    """Yield the offer as plain text and quoted text have it, and in quotes, if it is a whole value.

    In ``{expression: clamp(a, 0, 100)}`` YAML would take the commas for its own.
    """
    single = offered.replace("'", "''")
    yield from dict.fromkeys((offered, single, _escaped(offered)))
    if before.endswith((": ", "- ")) and after[:1] in ("", "}", ","):
        yield f"'{single}'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _mends(problem: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """Tell whether a problem is gone, and no slip has come in its place."""
    told, tells = _counted(before), _counted(after)
    gone = tells[problem.code, problem.message] < told[problem.code, problem.message]
    new = [code for code, _ in (tells - told)]
    return gone and not any(code.startswith(_SLIPS) for code in new)


def _counted(found: Sequence[Diagnostic]) -> Counter[tuple[str, str]]:
    return Counter((one.code, one.message) for one in found)
