"""Segments: the compressed files of a recording, written and read line by line.

Each write ends with a flush of the compressor, so that all lines so far can be read again from the
file, whatever becomes of the process. Reading takes nothing for granted: lines, files and their
number have bounds, and what a cut file still has is read up to its last whole line.
"""

from __future__ import annotations

import fcntl
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError
from policy_sched.source import check_links

SUFFIX: Final = ".jsonl.gz"
_NAME: Final = re.compile(r"([0-9]{6,9})\.jsonl\.gz")
LEVEL: Final = 1
"""Level of compression."""
MODE: Final = 0o600
"""Mode of the files: names of pods and nodes are not public."""
FOLDER_MODE: Final = 0o700
LONGEST_LINE: Final = 16 << 20
"""Bytes of a line; an object in etcd has 1.5 MiB at most."""
MOST_BYTES: Final = 8 << 30
"""Bytes of a segment, uncompressed."""
MOST_SEGMENTS: Final = 100_000
"""Segments of a recording: those of eleven years."""
BLOCK: Final = 1 << 18
"""Bytes that are read, or uncompressed, at a time."""
POLICIES: Final = "policies-*.json"
"""Names of the files of policies."""
BAD_LINE: Final = "PS715"
"""Code of bytes that are no recording."""

Write = Callable[[int, bytes], int]
"""Writes to a file by its number, as `os.write`."""


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:06d}{SUFFIX}"


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder. Raises PolicySchedError for too many."""
    numbers = [int(match[1]) for match in map(_NAME.fullmatch, os.listdir(folder)) if match]
    if len(numbers) > MOST_SEGMENTS:
        raise PolicySchedError(f"{folder}: it has more than {MOST_SEGMENTS:,} segments")
    return sorted(numbers)


class FolderLock:
    """A folder that only one process writes to. Raises PolicySchedError, or OSError."""

    def __init__(self, folder: Path) -> None:
        check_links(folder)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise PolicySchedError(f"{folder}: another process records there") from None

    def close(self) -> None:
        """Leave the folder to others."""
        os.close(self._handle)


class SegmentFile:
    """A segment that is written. Every method raises OSError."""

    def __init__(self, path: Path, write: Write = os.write) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path = path
        self.size = 0
        """Bytes so far."""
        self._write = write
        self._handle = os.open(path, flags, MODE)
        self._pack = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def write(self, lines: bytes) -> None:
        """Write lines, which can be read from then on."""
        self._put(self._pack.compress(lines) + self._pack.flush(zlib.Z_SYNC_FLUSH))

    def end(self) -> None:
        """Complete the file and close it."""
        try:
            self._put(self._pack.flush(zlib.Z_FINISH))
        finally:
            os.close(self._handle)

    def abandon(self) -> None:
        """Close the file as it is."""
        os.close(self._handle)

    def _put(self, data: bytes) -> None:
        while data:
            written = self._write(self._handle, data)
            self.size += written
            data = data[written:]


class SegmentReader:
    """Reads the lines of a segment in blocks; ``cut`` says afterwards why it ended too soon."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = ""
        self.damaged = False
        """Whether its bytes are not those that were written."""

    def blocks(self) -> Iterator[bytes]:
        """Yield whole lines, many at a time. Raises PolicyError for what cannot be one."""
        rest, lines = b"", 0
        for data in self._uncompressed():
            end = data.rfind(b"\n") + 1
            if end:
                block = rest + data[:end]
                lines += block.count(b"\n")
                yield block
                rest = data[end:]
            else:
                rest += data
            if len(rest) > LONGEST_LINE:
                raise self.refusal(lines + 1, f"a line has more than {LONGEST_LINE:,} bytes")
        if rest and not self.cut:
            self.cut = "it ends within a line"

    def _uncompressed(self) -> Iterator[bytes]:
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        count = 0
        with self.path.open("rb") as file:
            while data := file.read(BLOCK):
                while data and not unpack.eof:
                    try:
                        some = unpack.decompress(data, BLOCK)
                    except zlib.error:
                        self.damaged = True
                        self.cut = f"its bytes are damaged before byte {file.tell():,}"
                        return
                    count += len(some)
                    if count > MOST_BYTES:
                        raise self.refusal(1, f"it is larger than {MOST_BYTES >> 30} GiB")
                    yield some
                    data = unpack.unconsumed_tail
                if unpack.eof:
                    if unpack.unused_data or file.read(1):
                        self.cut = "other bytes follow its end"
                    return
        self.cut = "it is cut off"

    def refusal(self, line: int, message: str) -> PolicyError:
        """Return the error of a line."""
        return refusal(self.path, line, message)


def refusal(path: Path, line: int, message: str) -> PolicyError:
    """Return the error of a line of a file."""
    return PolicyError([Diagnostic(str(path), line, 1, BAD_LINE, message)])
