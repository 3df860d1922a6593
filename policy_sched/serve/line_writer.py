"""Lines of a log, handed to the system once for each turn of the event loop.

A turn may decide many pods: a call of the system for each would cost as much as the line itself.
"""

from __future__ import annotations

import asyncio
from typing import BinaryIO


class LineWriter:
    """Writes lines to a file; in an event loop they are there when the turn has ended."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._due = False
        self._failed: OSError | None = None

    def __call__(self, line: bytes) -> None:
        """Write a line. Raises OSError, if the file cannot be written, now or the next time."""
        if self._failed is not None:
            raise self._failed
        self._file.write(line)
        if self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._file.flush()
            return
        self._due = True
        loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        try:
            self._file.flush()
        except OSError as error:
            self._failed = error
