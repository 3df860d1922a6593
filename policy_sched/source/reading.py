"""Reads files of text with limits: on their kind, their size, and what gzip makes of them.

What comes from a file is measured before it fills memory: a sparse file by its size, a compressed
one while it is unpacked. Reading ends at the first NUL, which no text may hold; the checks of the
text then report where it is.

A test names policies, and a directory may hold symbolic links: in CI both come from an untrusted
change. What they lead to is read only below a directory that the command was given, or if it
states an apiVersion of policy_sched; nothing else of it is ever shown.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
from collections.abc import Iterable
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

    Regular files are read, and the pipes of a shell (``<(command)``). Raises OSError for an
    unreadable file, for other kinds of files, and beyond ``most`` bytes; EOFError and zlib.error
    for damaged .gz files. ``advice`` is what to do about the size.
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


GROUPS: Final = ("policysched.dev/", "kubescheduler.config.k8s.io/")
"""Prefixes of the apiVersions of the files that are read here, manifests apart."""

_OURS: Final = re.compile(
    rb"""(?:^(?:---\s*)?|[{,])\s*["']?apiVersion["']?\s*:\s*["']?(?:%b)"""
    % b"|".join(re.escape(group.encode()) for group in GROUPS),
    re.MULTILINE,
)
_ANY: Final = re.compile(rb"""^[-{\s,]*["']?apiVersion["']?\s*:""", re.MULTILINE)
_LARGEST: Final = 8 << 20


def is_file_of_ours(path: str | Path, pattern: re.Pattern[bytes] = _OURS) -> bool:
    """Return whether a readable file, well formed or not, has a known apiVersion."""
    try:
        return pattern.search(read_bytes(path, _LARGEST)) is not None
    except (OSError, EOFError):
        return False


def leads_out(path: str | Path, roots: Iterable[str | Path]) -> bool:
    """Return whether a path, all symbolic links followed, is below none of the directories."""
    real = Path(os.path.realpath(path))
    return not any(real.is_relative_to(os.path.realpath(root)) for root in roots)


def is_stray_link(path: Path, root: Path, *, manifest: bool = False) -> bool:
    """Return whether a file below ``root`` links out of it to a file without a known apiVersion.

    ``manifest``: to a file without any apiVersion.
    """
    if not leads_out(path, (root,)):
        return False
    return not is_file_of_ours(path, _ANY if manifest else _OURS)


def root_of(file: str | Path) -> Path:
    """Return the directory in which a file's references are allowed.

    The closest one above that holds a repository (``.git``); without one the working directory,
    if the file is below it and it is neither the root of the file system nor the home directory;
    else the file's own.
    """
    folder = Path(os.path.realpath(file)).parent
    for above in (folder, *folder.parents):
        if (above / ".git").exists():
            return above
    here = Path(os.path.realpath(os.curdir))
    wide = (Path(here.anchor), Path(os.path.expanduser("~")))
    return here if folder.is_relative_to(here) and here not in wide else folder
