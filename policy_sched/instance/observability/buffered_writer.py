"""Lines of a log, handed to the system once for each turn of the event loop.

A turn may decide many pods: a call of the system for each would cost as much as the line itself.
Where there is no room for them, lines are lost and counted: a full disk ends no scheduler.
"""

from __future__ import annotations

import asyncio
import errno
import io
from typing import BinaryIO, Final

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN})


class LineWriter:
    """Writes lines to a file; in an event loop they are there when the turn has ended."""

    def __init__(self, file: BinaryIO) -> None:
        # A buffer would keep what could not be written, and write it again and again.
        self._file = file.raw if isinstance(file, io.BufferedWriter) else file
        self._held: list[bytes] = []
        self._due = False
        self._failed: OSError | None = None
        self.lost = 0
        """Lines that could not be written for want of room."""
        self.room = True
        """Whether there was room the last time."""
        self._broken_off = False

    def __call__(self, line: bytes) -> None:
        """Write a line. Raises OSError, if the file cannot be written, now or the next time."""
        if self._failed is not None:
            raise self._failed
        self._held.append(line)
        if self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write()
            return
        self._due = True
        loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        try:
            self._write()
        except OSError as error:
            self._failed = error

    def _write(self) -> None:
        lines, self._held = self._held, []
        data = b"".join(lines)
        begin, written = 0, 0
        if self._broken_off:  # in the middle of a line
            data, begin = b"\n" + data, 1
        try:
            while written < len(data):
                count = self._file.write(data[written:])
                if count is None:  # a pipe that does not block is full
                    raise BlockingIOError(errno.EAGAIN, "no room")
                written += count
            self._file.flush()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.room = False
            self.lost += data.count(b"\n", max(written, begin))
            self._broken_off = self._broken_off or (written > 0 and data[written - 1] != 10)
            return
        self.room, self._broken_off = True, False
