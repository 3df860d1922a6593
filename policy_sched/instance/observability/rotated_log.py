"""Logs of records, a line of JSON each, in files that are rotated.

Theory of operation. A line is one write to a file that is opened for appending, so readers
see complete lines, and the end of the process loses none. When the file was moved away
(logrotate), a new one is started, with a record of how things are where the log has one: each file
can be read by itself. A large file that was not rotated replaces FILE.1, which bounds the space. A
full disk does not stop the process: lines are dropped and counted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

import msgspec

from policy_sched.source import check_links

LARGEST: Final = 256 << 20
"""Bytes of a file at which the next is started; some million decisions."""
_MODE: Final = 0o640
"""File mode: names of pods and nodes are not public."""


class RotatedLog:
    """Appends records to the file at ``path``.

    ``-`` is standard output. ``begin`` returns the first record of a file; its argument is whether
    the file continues another one. ``trouble`` is called with the reason when writing begins to
    fail. The constructor raises OSError if the file is not writable.
    """

    def __init__(
        self,
        path: str,
        begin: Callable[[bool], msgspec.Struct] | None,
        trouble: Callable[[str], None],
        largest: int = LARGEST,
    ) -> None:
        self.path = path
        self._largest = largest
        self.lost = 0
        """Lines that were dropped."""
        self._begin = begin
        self._trouble = trouble
        self._encode = msgspec.json.Encoder().encode
        self._begun = False
        self._whole = False
        """Whether every record since the first is in the file."""
        self._failing = False
        self._file = self._open()

    def begin(self) -> None:
        """Write the first record of the file."""
        self._try(None)

    def write(self, record: msgspec.Struct) -> None:
        """Append a record, after the file's first one if it has none yet."""
        self._try(record)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # Writing.

    def _try(self, record: msgspec.Struct | None) -> None:
        try:
            self._write(record)
        except OSError as error:
            self.lost += 1
            self._whole = False
            if not self._failing:
                self._trouble(f"{self.path}: {error.strerror}")
            self._failing = True
            return
        self._failing = False

    def _write(self, record: msgspec.Struct | None) -> None:
        if self._moved():
            os.close(self._file)
            self._file = -1
        if self._file < 0:
            self._begun, self._file = False, self._open()
        if not self._begun and self._begin is not None:
            self._append(self._begin(self._whole))
            self._begun = self._whole = True
        if record is not None:
            self._append(record)
            self._begun = True

    def _open(self) -> int:
        if self.path == "-":
            return os.dup(1)
        check_links(self.path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, _MODE)

    def _moved(self) -> bool:
        """Return whether the name is another file's or gone; rotate a large file."""
        if self._file < 0 or self.path == "-":
            return False
        ours = os.fstat(self._file)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return True
        if (ours.st_ino, ours.st_dev) != (there.st_ino, there.st_dev):
            return True
        if ours.st_size < self._largest or not stat.S_ISREG(ours.st_mode):
            return False
        os.replace(self.path, f"{self.path}.1")
        return True

    def _append(self, record: msgspec.Struct) -> None:
        line = self._encode(record) + b"\n"
        if not self._begun and self._broken_off():
            line = b"\n" + line
        written = os.write(self._file, line)
        if written < len(line):  # the disk is full: the next write starts anew
            self._begun = False
            raise OSError(28, "No space left on device")

    def _broken_off(self) -> bool:
        """Return whether the file ends within a line, after a process that was killed."""
        there = os.fstat(self._file)
        size = there.st_size if stat.S_ISREG(there.st_mode) else 0
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
