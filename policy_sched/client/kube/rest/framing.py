"""The lines of a stream of bytes: a watch is one JSON object a line, cut anywhere on its way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LONGEST: Final = 64 << 20
"""Bytes of the longest line that is read. etcd holds objects of up to 1.5 MiB by default."""


class LineTooLong(ValueError):  # noqa: N818 - what is wrong is the line, not the program
    """A line has no end in sight."""


class Lines:
    """Collects chunks and gives out whole lines, without their ends and without empty ones.

    The pieces of a line are joined once, when its end is there: a line of many chunks costs no
    more than its length.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of the line that has begun."""
        return self._held

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this chunk. Raises LineTooLong."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._check(self._held + end - start)
            line = chunk[start:end]
            if self._pieces:
                line = b"".join((*self._pieces, line))
                self._pieces.clear()
                self._held = 0
            start = end + 1
            line = line.removesuffix(b"\r")
            if line:
                yield line
        rest = chunk[start:]
        if rest:
            self._pieces.append(rest)
            self._held += len(rest)
            self._check(self._held)

    def _check(self, length: int) -> None:
        if length > self._longest:
            raise LineTooLong(f"a line is longer than {self._longest} bytes")
