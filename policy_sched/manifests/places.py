"""Where an object of a manifest stands, and the second look that tells what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from policy_sched.errors import Diagnostic
from policy_sched.manifests.struct_errors import Path
from policy_sched.source import (
    MAX_DEPTH,
    MAX_LOOK,
    UNREADABLE,
    Marked,
    Record,
    SourceFile,
    diagnostic,
    parse_text,
    unprintable,
)


@dataclass(frozen=True, slots=True)
class LocatedManifest:
    """An object that was read with its places: its plain data, or the problems of its text.

    ``marked`` is None where only the line is known: of JSON that YAML cannot read, and of objects
    of more than 1 MiB. ``ended``: what follows in the file cannot be read.
    """

    value: object
    file: SourceFile
    marked: Marked | None = None
    problems: Sequence[Diagnostic] = ()
    ended: bool = False

    def diagnostic(self, path: Path, code: str, message: str, hint: str) -> Diagnostic:
        """Return the diagnostic of a path inside the object."""
        span = (0, 1) if self.marked is None else self.marked.span(path)
        where = ".".join(str(step) for step in path)
        context = f"at {where}" if self.marked is None and where else ""
        return diagnostic(self.file, span, code, message, hint=hint, context=context)


@dataclass(frozen=True, slots=True)
class ManifestPosition:
    """Where an object stands in a file of YAML, or of JSON."""

    file: SourceFile
    record: Record
    is_json: bool = False

    def __str__(self) -> str:
        return f"{self.file.path}:{self.file.position(self.record.start)[0]}"

    def look(self) -> LocatedManifest:
        """Read the object with its places."""
        if self.is_json:
            return _look_at_json(self.file.section(self.record.start, self.record.end))
        if self.record.json is not None and self.record.end - self.record.start > MAX_LOOK:
            section = self.file.section(self.record.start, self.record.end)
            return LocatedManifest(msgspec.json.decode(self.record.json), section)
        parsed = self.record.look(self.file)
        if parsed.problems or not parsed.documents:
            section = self.file.section(self.record.start, self.record.end)
            return LocatedManifest(None, section, None, parsed.problems, parsed.ended)
        marked = parsed.documents[0]
        return LocatedManifest(marked.value, marked.file, marked)


def _look_at_json(file: SourceFile) -> LocatedManifest:
    """Read JSON with its places, by reading it as YAML, which has nearly all of it."""
    refused = unprintable(file) or len(file.text) > MAX_LOOK
    parsed = None if refused else parse_text(file, _without_surrogates(file.text))
    try:
        value = json.loads(file.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message = f"the text is not JSON: {error.msg}"
        return LocatedManifest(None, file, None, [diagnostic(file, error.pos, UNREADABLE, message)])
    except RecursionError:
        message = f"values are nested more than {MAX_DEPTH} deep"
        return LocatedManifest(None, file, None, [diagnostic(file, 0, UNREADABLE, message)])
    except ValueError as error:  # a constant, or a number of more digits than int() takes
        found = [] if parsed is None else parsed.problems
        other = diagnostic(file, 0, UNREADABLE, f"the text is not JSON: {error}")
        return LocatedManifest(None, file, None, found or [other])
    value = _without_halves(value)
    if parsed is not None and len(parsed.documents) == 1 and not parsed.problems:
        return LocatedManifest(value, file, parsed.documents[0])
    problems = [] if parsed is None else parsed.problems
    if any("duplicate key" in problem.message for problem in problems):
        return LocatedManifest(None, file, None, problems)
    return LocatedManifest(value, file)  # JSON that YAML does not know: no exact places


def _without_halves(value: object) -> object:
    """Return a value without halves of surrogate pairs, which stand for no character.

    U+FFFD takes their place, as where Go reads JSON.
    """
    text = json.dumps(value, ensure_ascii=False)
    mended = _HALF.sub("\ufffd", text)
    return value if mended == text else json.loads(mended)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


_HALF: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")


def _without_surrogates(text: str) -> str:
    """Return a text as long, without the halves of characters which JSON may escape, YAML not."""
    return _ESCAPE.sub(lambda found: "x" * 6 if len(found[0]) == 6 else found[0], text)
