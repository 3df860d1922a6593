"""Diagnostic, and the exception classes split by whose fault it is (author, plugin, cluster)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

#: Source lines up to this length are shown whole, in characters.
WHOLE_LINE: Final = 160
#: Characters of a source line in JSON.
LONGEST_LINE: Final = 10_000
#: Diagnostics that are shown of one file.
MAX_DIAGNOSTICS: Final = 100


_UNSEEN: Final = (
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # controls but the tab
    "\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"  # line breaks, and what turns text around
    "\ud800-\udfff"  # halves of characters
)
_ODD: Final = re.compile(rf"[{_UNSEEN}]|(?<=#)#(?=\[|vso\[)")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\x1b": "\\e"}


def one_line(text: str) -> str:
    """Return a text as it may stand on a line of a log.

    Line breaks, other control characters and halves of characters are escaped, and so is what
    build servers take for a command: "::" at the start (GitHub), "##[" and "##vso[" (Azure).
    """
    text = _ODD.sub(_escaped, text)
    return re.sub(r"^(\s*):(?=:)", r"\1\\x3a", text)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


#: Characters of a name that others are compared with.
_LONGEST_NAME: Final = 64
#: How alike two names must be, of 1: twice the characters that they share, by those of both.
_ALIKE: Final = 0.66


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that ``name`` most likely meant, or None. Case does not count."""
    import difflib  # noqa: PLC0415 - where something is misspelt

    if len(name) > _LONGEST_NAME:
        return None
    by_folded = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_ALIKE)
    return by_folded[close[0]] if close else None


class Severity(StrEnum):
    """How bad a diagnostic is: an error refuses to load, a warning or note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_NOTE: Final = Severity.NOTE
_MORE: Final = "PS501"


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One problem of a file that a person wrote: where it is, what it is and how to mend it.

    Lines and columns count from 1; columns count characters. ``width`` is the number of
    characters that the caret underlines. ``source_line`` is the text of the line, without its
    line break, for the caret display; empty where the text is not at hand.
    """

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    context: str = ""
    severity: Severity = Severity.ERROR
    width: int = 1
    source_line: str = field(default="", compare=False)

    @property
    def placed(self) -> str:
        """Position and message, for a line among others."""
        return f"{self.file}:{self.line}:{self.column}: {self.message}"

    def render(self) -> str:
        """Return the diagnostic as text: position and message, source line, caret, hint."""
        position = f"{self.file}:{self.line}:{self.column}"
        parts = [one_line(f"{position}: {self.severity} {self.code}: {self.message}")]
        if self.source_line:
            number = f"{self.line:5d}"
            text, column = self.excerpt()
            text = _ODD.sub("\ufffd", text)
            room = max(1, len(text) - column + 2)
            caret = "^" + "~" * (min(self.width, room) - 1)
            indent = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
            parts.append(f"{number} | {text}")
            parts.append(f"{' ' * len(number)} | {indent}{caret}")
        parts.extend(f"   = {one_line(text)}" for text in (self.context, self.hint) if text)
        return "\n".join(parts)

    def excerpt(self) -> tuple[str, int]:
        """Return what is shown of the source line, and the column's place in it."""
        return _window(self.source_line, self.column)


def _window(line: str, column: int) -> tuple[str, int]:
    """Return what is shown of a source line, and the column's place in it.

    A line of JSON may be very long; then only what surrounds the column is shown.
    """
    if len(line) <= WHOLE_LINE:
        return line, column
    start = max(0, column - 1 - WHOLE_LINE // 2)
    end = start + WHOLE_LINE
    head, tail = ("..." if start else ""), ("..." if end < len(line) else "")
    return f"{head}{line[start:end]}{tail}", column - start + len(head)


def as_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as JSON has it; of a line that is very long only the beginning."""
    return asdict(diagnostic) | {"source_line": diagnostic.source_line[:LONGEST_LINE]}


def bounded(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics in file order, of each file the first, and how many more it has.

    Errors come before what is no error, so that a file that is refused is never shown as fine.
    """
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in sorted(diagnostics):
        by_file.setdefault(diagnostic.file, []).append(diagnostic)
    return [diagnostic for of_file in by_file.values() for diagnostic in _first(of_file)]


def _first(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Return the first diagnostics of a file, all of them where only one would be left out."""
    if len(diagnostics) <= MAX_DIAGNOSTICS + 1:
        return diagnostics
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]
    others = [diagnostic for diagnostic in diagnostics if diagnostic.severity is not Severity.ERROR]
    kept = sorted([*errors, *others][:MAX_DIAGNOSTICS])
    last = kept[-1]
    first_left = next(
        (diagnostic for diagnostic in diagnostics if diagnostic > last),
        replace(last, column=last.column + 1),
    )
    message = f"and {len(diagnostics) - len(kept)} more problems in this file"
    return [
        *kept,
        Diagnostic(
            first_left.file, first_left.line, first_left.column, _MORE, message, severity=_NOTE
        ),
    ]


class PolicySchedError(Exception):
    """Root of the errors that this package raises on purpose."""


class PolicyError(PolicySchedError):
    """The author of a file made mistakes; carries them as Diagnostics, see `bounded`."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(bounded(diagnostics))
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class PluginError(PolicySchedError):
    """A plugin broke its contract or raised; the message names the plugin and the point."""


class TakesLong(PluginError):  # noqa: N818 - no error
    """An attempt that is to be brief calls extenders, places a group, or takes much work.

    ``worked``: it took work to find that out.
    """

    def __init__(self, message: str, *, worked: bool = False) -> None:
        super().__init__(message)
        self.worked = worked


class ClusterError(PolicySchedError):
    """The cluster refused or did not respond."""
