"""A file that a person wrote: its text, its lines, and diagnostics that point into it."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import Final, TextIO

from policy_sched.errors import Diagnostic, Severity
from policy_sched.source.reading import read_stream

UNREADABLE: Final = "PS701"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
MAX_STDIN: Final = 1 << 20
"""Characters that are read of standard input, for one policy file: as many as a file may have."""
Span = tuple[int, int]
"""Offsets of the first character and of the one after the last."""


class SourceFile:
    """A file's name, as it is shown, and its text; ``first_line`` is the number of its first line.

    A first line other than 1 is for text that was cut out of a longer file. Byte order marks are
    dropped: no column counts them.
    """

    def __init__(self, path: str, text: str, first_line: int = 1) -> None:
        self.path = path
        self.text = text.lstrip("\ufeff")
        self.first_line = first_line
        self._shown = 0, ""

    @property
    def size(self) -> int:
        """The length of the whole file in characters."""
        return len(self.text)

    def section(self, start: int, end: int) -> SourceFile:
        """Return a part of the file; its places, and the lines that it shows, are the file's."""
        return _Section(self, start, end)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(line_break.end() for line_break in re.finditer("\n", self.text))]

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their line breaks."""
        return [line.removesuffix("\r") for line in self.text.split("\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column, columns from 1, of a character offset."""
        row = bisect_right(self._starts, offset) - 1
        return row + self.first_line, offset - self._starts[row] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the character offset of a line and a column."""
        return self._starts[line - self.first_line] + column - 1

    def line_text(self, line: int) -> str:
        """Return the text of a line; empty outside the file."""
        row = line - self.first_line
        return self.lines[row] if 0 <= row < len(self.lines) else ""

    def shown_line(self, line: int) -> str:
        """Return the text of a line as it may be shown; that of the last line is kept.

        A line of JSON may be the whole file, and have thousands of problems.
        """
        number, text = self._shown
        if number != line:
            text = masked(self.line_text(line))
            self._shown = line, text
        return text


_SECRET: Final = re.compile(
    r"""(?<=://)[^/\s@"']+(?=@)|(?<=keyData)["']?\s*:[^,}]+|(?<=password)["']?\s*:[^,}]+"""
)
"""The user of a URL; the value of a key that is secret in a configuration."""


def masked(line: str) -> str:
    """Return a line as it may be shown: secrets in it become as many asterisks."""
    return _SECRET.sub(lambda secret: "*" * len(secret[0]), line)


class _Section(SourceFile):
    """A part of a file, whose offsets count from its own start."""

    def __init__(self, whole: SourceFile, start: int, end: int) -> None:
        self.path = whole.path
        self.text = whole.text[start:end]
        self.first_line = whole.first_line
        self._whole, self._start = whole, start
        self._shown = 0, ""

    @property
    def size(self) -> int:
        return self._whole.size

    def position(self, offset: int) -> tuple[int, int]:
        return self._whole.position(self._start + offset)

    def line_text(self, line: int) -> str:
        return self._whole.line_text(line)


def decode_text(path: str, data: bytes) -> str | Diagnostic:
    """Return the text of a file, or where it is not UTF-8; columns count bytes there."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start
        line = data.count(b"\n", 0, at) + 1
        column = at - data.rfind(b"\n", 0, at)
        utf16 = "the file looks like UTF-16: save it as UTF-8" if data.startswith(_UTF16) else ""
        message = f"the byte 0x{data[at]:02x} is not UTF-8"
        return Diagnostic(path, line, column, UNREADABLE, message, utf16)


def read_text(stream: TextIO, path: str) -> str | Diagnostic:
    """Return the text of an open stream, which is called ``path``."""
    try:
        return read_stream(stream, path, MAX_STDIN)
    except OSError as error:
        return Diagnostic(path, 1, 1, UNREADABLE, f"cannot read the file: {error.strerror}")
    except UnicodeDecodeError:
        return Diagnostic(path, 1, 1, UNREADABLE, "what comes in is not UTF-8")


def diagnostic(  # noqa: PLR0913  # the optional parts are keywords
    file: SourceFile,
    span: int | Span,
    code: str,
    message: str,
    *,
    hint: str = "",
    context: str = "",
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """Return a Diagnostic for an offset or a span of a file; the caret stays on its first line."""
    start, end = (span, span + 1) if isinstance(span, int) else span
    line, column = file.position(start)
    source_line = file.shown_line(line)
    room = len(source_line) - column + 1
    return Diagnostic(
        file=file.path,
        line=line,
        column=column,
        code=code,
        message=message,
        hint=hint,
        context=context,
        severity=severity,
        width=max(1, min(end - start, room)),
        source_line=source_line,
    )


_NEVER: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return a text with a replacement character for each that no XML document may have."""
    return _NEVER.sub("\ufffd", text)
