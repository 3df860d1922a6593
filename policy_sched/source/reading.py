"""Reads files of text with limits: on their kind, their size, and what gzip makes of them.

What comes from a file is measured before it fills memory: a sparse file by its size, a compressed
one while it is unpacked. Reading ends at the first NUL, which no text may hold; the checks of the
text then tell where it is.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
from pathlib import Path
from typing import IO, Final, TextIO

MAX_BYTES: Final = 512 << 20
"""Bytes of one file of manifests, records or a trace, unpacked: 512 MiB."""
MAX_RATIO: Final = 200
"""How many times larger a file may become when it is unpacked; texts reach some 30 times."""
SMALL: Final = 64 << 20
"""Unpacked bytes up to which the ratio does not matter: 64 MiB."""

_CHUNK: Final = 1 << 20
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: str | Path, most: int = MAX_BYTES, advice: str = "") -> bytes:
    """Return what is in a file of text, unpacked if its name ends in .gz.

    Regular files are read, and the pipes of a shell (``<(command)``). Raises OSError for what
    cannot be read, which includes other kinds of files and what is larger than ``most`` bytes;
    EOFError and zlib.error for damaged .gz files. ``advice`` says what to do about the size.
    """
    name = str(path)
    advice = advice and f"; {advice}"
    with _opened(name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size} bytes, more than {most}{advice}", name)
        if not name.endswith(".gz"):
            return _bounded(file, most, f"it is larger than {most} bytes{advice}", name)
        ratio = max(SMALL, MAX_RATIO * size)
        why = f"unpacked it is larger than {most} bytes{advice}"
        if ratio < most:
            most = ratio
            why = f"unpacked it is more than {MAX_RATIO} times larger; unpack it with gunzip"
        with gzip.open(file) as unpacked:
            return _bounded(unpacked, most, why, name)


def read_stream(stream: TextIO, name: str, most: int = MAX_BYTES) -> str:
    """Return the text of an open stream, which is called ``name``.

    Raises OSError if it is larger than ``most`` characters.
    """
    parts: list[str] = []
    size = 0
    while part := stream.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most} characters", name)
        if "\0" in part:
            break
    return "".join(parts)


def _bounded(file: IO[bytes] | gzip.GzipFile, most: int, why: str, name: str) -> bytes:
    """Return the rest of a file, up to the first NUL. Raises OSError if it is too large."""
    parts: list[bytes] = []
    size = 0
    while part := file.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            raise OSError(errno.EFBIG, why, name)
        if b"\0" in part and not parts[0].startswith(_UTF16):
            break
    return b"".join(parts)


def _opened(name: str) -> IO[bytes]:
    """Open a regular file, or a pipe without a name. Raises OSError for everything else."""
    if "\0" in name:
        raise OSError(errno.EINVAL, "a path cannot hold the character NUL", name)
    # Without O_NONBLOCK, opening a named pipe waits for a process that writes to it.
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    piped = stat.S_ISFIFO(mode) and os.path.realpath(name).startswith(("/proc/", "/dev/fd/"))
    if piped or stat.S_ISREG(mode) or os.path.realpath(name) == os.devnull:
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    what = "a named pipe" if stat.S_ISFIFO(mode) else "a device"
    why = f"it is {what}, not a regular file; use - to read standard input"
    raise OSError(errno.EINVAL, why, name)
