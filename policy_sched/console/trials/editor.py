"""The editor's checks, completions and hovers: the language server's, as plain data.

Positions count from 0: lines, and UTF-16 units of a line, as scripts of a page count them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from policy_sched.console.trials.questions import Question
from policy_sched.errors import Diagnostic
from policy_sched.experiments import open_experiment_problems
from policy_sched.language import Entry
from policy_sched.lsp.suggestions import meaning, suggestions
from policy_sched.profiles.check import check_open

MOST: Final = 200
"""Completions that are sent at most."""

Asked = Literal["check", "complete", "hover"]
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EditorQuestion(Question[Data]):
    """A question about a text that is open in the editor; ``path`` is the file that it is for."""

    asked: Asked
    path: str
    text: str
    line: int = 0
    character: int = 0

    def result(self) -> Data:
        """Return problems, completions or the description of a word."""
        if self.asked == "check":
            return {"problems": problems(self.path, self.text)}
        at = min(max(self.line, 0), self.text.count("\n"))
        line = self.text.split("\n")[at]
        character = characters(line, self.character)
        if self.asked == "hover":
            entry = meaning(self.path, self.text, at, character)
            return {"entry": None if entry is None else description(entry)}
        listed = suggestions(self.path, self.text, at, character)
        return {
            "suggestions": [
                {
                    "label": suggestion.label,
                    "kind": suggestion.kind,
                    **description(suggestion.entry),
                }
                for suggestion in listed[:MOST]
            ],
            "from": units(line, word_start(line, character)),
        }


def problems(path: str, text: str) -> list[Data]:
    """Return every problem of a text, as the language server publishes them."""
    folder = Path(path).parent
    beside = [str(folder)] if folder.is_dir() else []
    lines = text.split("\n")
    diagnostics = check_open(path, text, beside, open_experiment_problems)
    return [problem(diagnostic, lines) for diagnostic in diagnostics]


def problem(diagnostic: Diagnostic, lines: list[str]) -> Data:
    """Return a problem with its place in the lines of a text."""
    at = min(max(diagnostic.line - 1, 0), len(lines) - 1)
    line = lines[at]
    start = diagnostic.column - 1
    return {
        "line": at,
        "start": units(line, start),
        "end": units(line, start + max(1, diagnostic.width)),
        "severity": str(diagnostic.severity),
        "code": diagnostic.code,
        "message": diagnostic.message,
        "context": diagnostic.context,
        "hint": diagnostic.hint,
    }


def description(entry: Entry) -> Data:
    """Return the description of a word."""
    return {
        "title": entry.title,
        "what": entry.kind,
        "text": entry.text,
        "example": entry.example,
    }


def word_start(line: str, character: int) -> int:
    """Return where the word that ends at a character begins."""
    start = character
    while start and (line[start - 1].isalnum() or line[start - 1] in "_$"):
        start -= 1
    return start


def units(line: str, character: int) -> int:
    """Return the number of UTF-16 units before a character of a line."""
    return len(line[: max(0, character)].encode("utf-16-le", "surrogatepass")) // 2


def characters(line: str, unit: int) -> int:
    """Return the number of characters in the first UTF-16 units of a line."""
    if line.isascii():
        return min(max(0, unit), len(line))
    head = line.encode("utf-16-le", "surrogatepass")[: 2 * max(0, unit)]
    return len(head.decode("utf-16-le", "ignore"))
