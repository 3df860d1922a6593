"""The file of a shadow: one line of JSON for each record, appended and complete at any time.

Theory of operation. A line is one write to a file that is opened for appending, so readers
see whole lines, and nothing is lost when the process ends. When the file was moved away
(logrotate) a new one is begun, which says first how full the nodes are: each file can be read by
itself. A large file that was not rotated is moved to FILE.1, in place of an older
one, so that no disk is ever full of it. A disk that is full does not stop the shadow: lines are
left out and counted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

import msgspec

from policy_sched.instance.shadow.records import ShadowRecord, Start

LARGEST: Final = 256 << 20
"""Bytes of a file at which the next is begun; some million decisions."""
_MODE: Final = 0o640
"""Names of pods and nodes are not for everybody."""


class ShadowLog:
    """Appends records to the file at ``path``.

    ``begin`` makes the first record of a file, and is told whether it goes on where another one
    ended. ``trouble`` is told once when writing begins to fail, and why. Raises OSError when it
    is made if the file cannot be written at all.
    """

    def __init__(
        self,
        path: str,
        begin: Callable[[bool], Start],
        trouble: Callable[[str], None],
        largest: int = LARGEST,
    ) -> None:
        self.path = path
        self._largest = largest
        self.lost = 0
        """Lines that could not be written."""
        self._begin = begin
        self._trouble = trouble
        self._encode = msgspec.json.Encoder().encode
        self._begun = False
        self._whole = False
        """Whether all that happened since the first record was written."""
        self._failing = False
        self._file = self._open()

    def begin(self) -> None:
        """Write the first record of the file."""
        self._try(None)

    def write(self, record: ShadowRecord) -> None:
        """Append a record; the file's first one before it, if there is none yet."""
        self._try(record)

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # Inside.

    def _try(self, record: ShadowRecord | None) -> None:
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

    def _write(self, record: ShadowRecord | None) -> None:
        if self._moved():
            os.close(self._file)
            self._file = -1
        if self._file < 0:
            self._begun, self._file = False, self._open()
        if not self._begun:
            self._append(self._begin(self._whole))
            self._begun = self._whole = True
        if record is not None:
            self._append(record)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, _MODE)

    def _moved(self) -> bool:
        """Tell whether another file has the name now, or none; move one that is large."""
        if self._file < 0:
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

    def _append(self, record: ShadowRecord) -> None:
        line = self._encode(record) + b"\n"
        if not self._begun and self._broken_off():
            line = b"\n" + line
        written = os.write(self._file, line)
        if written < len(line):  # the disk is full: what comes next begins anew
            self._begun = False
            raise OSError(28, "No space left on device")

    def _broken_off(self) -> bool:
        """Tell whether the file ends within a line, as an earlier process may have left it."""
        size = os.fstat(self._file).st_size
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
