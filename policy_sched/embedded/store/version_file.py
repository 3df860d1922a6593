"""The version of the last change that was kept, in a small file beside the database.

SQLite recovers what a damaged or missing write-ahead log still gives, and does not tell what is
lost. This number is written after every change, in place, so that the next process can tell.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import Final

SUFFIX: Final = "-version"
_FORM: Final = struct.Struct("<QQ")
_CHECK: Final = 0x9E3779B97F4A7C15
"""What the second number differs by from the first, bit by bit: a torn one is not believed."""


class KeptVersion:
    """The number beside a database; 0 if there is none that can be believed."""

    def __init__(self, database: str) -> None:
        self._file: int | None = None
        self.value = 0
        with suppress(OSError):  # the number is a help, and missed by nothing but the help
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(f"{database}{SUFFIX}", flags, 0o600)
            content = os.pread(self._file, _FORM.size, 0)
            if len(content) == _FORM.size:
                version, check = _FORM.unpack(content)
                self.value = version if version ^ _CHECK == check else 0

    def write(self, version: int) -> None:
        """Replace the number."""
        self.value = version
        if self._file is not None:
            with suppress(OSError):
                os.pwrite(self._file, _FORM.pack(version, version ^ _CHECK), 0)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
