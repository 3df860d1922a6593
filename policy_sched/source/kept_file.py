"""Files in the user's cache, in which commands keep what they compute at every start.

The directory is named by the environment variable `DIRECTORY`, which the command line sets; without
it nothing is kept. The name of a file ends with a hash of what its content is computed from. What
lies there may hold code, so it is read only if no other user can have written it: file and
directory belong to this user or, as in an image, to root, others may not write there, and links are
not followed. A relative
directory is none: what is below the working directory may come from a repository. A checksum
finds damage, and a pickle can name only what its reader expects. Files can be deleted at any time,
and a directory that cannot be written is no problem. Several versions of the program may share a
directory: a few files of each kind stay.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

from policy_sched.source.writing import UNFINISHED, write_file

DIRECTORY: Final = "POLICY_SCHED_CACHE"
"""The environment variable with the directory; empty: nothing is kept."""
LARGEST: Final = 8 << 20
"""Bytes of a file that is read."""
FILES: Final = 4
"""Files of a kind that stay; each version of the program has its own."""
ABANDONED: Final = 3600
"""Seconds after which an unfinished file belongs to a killed process."""
_CHECKSUM: Final = hashlib.sha256().digest_size


class KeptFile:
    """A file of the cache: ``kind`` says what is kept, ``key`` is a hash of where it is from."""

    def __init__(self, directory: str, kind: str, key: str) -> None:
        self.path: Final = Path(directory) / f"{kind}-{key}"
        self._kind = kind

    def read(self) -> bytes | None:
        """Return the content; None if there is none, or none that is to be trusted."""
        try:
            if not (self.path.is_absolute() and _is_safe(self.path.parent.lstat())):
                return None
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            handle = os.open(self.path, flags)
            with os.fdopen(handle, "rb") as file:
                state = os.fstat(handle)
                if not (stat.S_ISREG(state.st_mode) and _is_safe(state)):
                    return None
                data = file.read() if state.st_size <= LARGEST else b""
        except OSError:
            return None
        content = data[_CHECKSUM:]
        return content if hashlib.sha256(content).digest() == data[:_CHECKSUM] else None

    def write(self, content: bytes) -> None:
        """Replace the content, and remove the oldest files of its kind if there are many."""
        folder = self.path.parent
        if not folder.is_absolute():
            return
        with suppress(OSError):
            if not _may_create(folder):
                return
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = folder.lstat()
            if state.st_uid != os.geteuid() or not _is_safe(state):
                return
            write_file(self.path, hashlib.sha256(content).digest() + content, private=True)
            self._remove_old(folder, self.path.stat().st_mtime)

    def _remove_old(self, folder: Path, now: float) -> None:
        """Remove files that are of no use any more; other processes may do so at the same time."""
        abandoned = [
            entry for entry in _by_age(folder, f"{UNFINISHED}*") if now - entry[0] > ABANDONED
        ]
        for _, other in (*abandoned, *_by_age(folder, f"{self._kind}-*")[:-FILES]):
            if other != self.path:
                other.unlink(missing_ok=True)


def pickled(content: object) -> bytes:
    """Return a pickle of what `unpickled` reads; PicklingError where something cannot be."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(content)
    except (AttributeError, TypeError) as error:  # a local function, a lock
        raise pickle.PicklingError(str(error)) from error
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Writes members of enums by their values: Python before 3.11.4 names getattr for them."""

    def reducer_override(self, value: Any) -> Any:
        """Return what makes a member of an enum."""
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


def unpickled(content: bytes, allowed: Callable[[str, str], bool]) -> Any:
    """Return the value of a pickle; ``allowed`` says of a module and a name whether it may have
    them.

    Raises whatever is wrong with it: any exception.
    """
    return _Unpickler(content, allowed).load()


class _Unpickler(pickle.Unpickler):
    """Finds only what is allowed: a pickle can name any function, and call it."""

    def __init__(self, content: bytes, allowed: Callable[[str, str], bool]) -> None:
        super().__init__(io.BytesIO(content))
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        """Return what a module has under a name."""
        if not self._allowed(module, name):
            raise pickle.UnpicklingError(f"{module}.{name} is not expected here")
        return super().find_class(module, name)


def _by_age(folder: Path, pattern: str) -> list[tuple[float, Path]]:
    """Return the files of a pattern with their times, the oldest first."""
    by_age = []
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            by_age.append((path.lstat().st_mtime, path))
    return sorted(by_age)


def _may_create(folder: Path) -> bool:
    """Return whether a directory is there, or would be created in one of this user.

    With ``sudo`` and the home of another user, that user could not write there any more.
    """
    while not folder.exists():
        folder = folder.parent
    state = folder.stat()
    return state.st_uid == os.geteuid() or bool(state.st_mode & stat.S_ISVTX)


def _is_safe(state: os.stat_result) -> bool:
    """Return whether no other user can write a file or a directory; root could write any."""
    return state.st_uid in (0, os.geteuid()) and not state.st_mode & 0o022
