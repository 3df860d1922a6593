"""Files in the user's cache, in which commands keep what they compute at every start.

The directory is named by the environment variable `DIRECTORY`, which the command line sets; without
it nothing is kept. The name of a file ends with a hash of what its content is computed from. What
lies there may hold code, so it is read only if no other user can have written it: file and
directory belong to this user, others may not write there, and links are not followed. A checksum
finds damage. Files can be deleted at any time, and a directory that cannot be written is no
problem.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY: Final = "POLICY_SCHED_CACHE"
"""The environment variable with the directory; empty: nothing is kept."""
LARGEST: Final = 8 << 20
"""Bytes of a file that is read."""
_CHECKSUM: Final = hashlib.sha256().digest_size


class KeptFile:
    """A file of the cache: ``kind`` says what is kept, ``key`` is a hash of where it is from."""

    def __init__(self, directory: str, kind: str, key: str) -> None:
        self.path: Final = Path(directory) / f"{kind}-{key}"
        self._kind = kind

    def read(self) -> bytes | None:
        """Return the content; None if there is none, or none that is to be trusted."""
        try:
            if not _is_own(self.path.parent.lstat()):
                return None
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            handle = os.open(self.path, flags)
            with os.fdopen(handle, "rb") as file:
                state = os.fstat(handle)
                if not (stat.S_ISREG(state.st_mode) and _is_own(state)):
                    return None
                data = file.read() if state.st_size <= LARGEST else b""
        except OSError:
            return None
        content = data[_CHECKSUM:]
        return content if hashlib.sha256(content).digest() == data[:_CHECKSUM] else None

    def write(self, content: bytes) -> None:
        """Replace the content, and remove the files of its kind with other keys."""
        with suppress(OSError):
            folder = self.path.parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(folder.lstat()):
                return
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".")
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, self.path)
            for other in folder.glob(f"{self._kind}-*"):
                if other != self.path:
                    other.unlink()


def _is_own(state: os.stat_result) -> bool:
    """Return whether only this user can write a file or a directory."""
    return state.st_uid == os.geteuid() and not state.st_mode & 0o022
