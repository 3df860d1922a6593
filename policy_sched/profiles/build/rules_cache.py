"""Keeps the compiled rules of the default profile in a file, for the next process.

Theory of operation. A command that reads no policies of its own compiles the same rules as the one
before it. The directory is named by the environment variable `DIRECTORY`, which the command line
sets; without it nothing is kept. The name of the file is a hash of the compiler: the versions of
the program, Python and NumPy, and the content of the packages that compiling depends on. In the
file, each policy has the hash of its content. So another compiler or another policy finds nothing.

The file holds code, so it is read only if no other user can have written it: file and directory
belong to this user, others may not write there, and links are not followed. A checksum finds
damage. Whatever is wrong with the file, the rules are compiled, and the file is written again. It
can be deleted at any time, and a directory that cannot be written is no problem.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from policy_sched import __version__
from policy_sched.language import CompiledPolicy

DIRECTORY: Final = "POLICY_SCHED_CACHE"
"""The environment variable with the directory; empty: nothing is kept."""
MOST: Final = 64
"""Policies in a file; the default profile has 11, and arguments of plugins make others of them."""
LARGEST: Final = 8 << 20
"""Bytes of a file that is read."""
COMPILING: Final = ("language", "cluster", "model")
"""Packages on whose content the result of compiling depends."""
PREFIX: Final = "default-rules-"
_SUFFIXES: Final = (".py", ".toml", ".lark")
_CHECKSUM: Final = hashlib.sha256().digest_size


class RulesCache:
    """The kept policies of one process, by the hash of their content."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / f"{PREFIX}{program_hash()}"
        self._known: dict[str, CompiledPolicy] | None = None
        self._new = False

    def find(self, digest: str) -> CompiledPolicy | None:
        """Return a kept policy, None if there is none."""
        return self._policies().get(digest)

    def keep(self, digest: str, policy: CompiledPolicy) -> None:
        """Keep a policy; `save` writes it."""
        known = self._policies()
        if digest not in known and len(known) < MOST:
            known[digest] = policy
            self._new = True

    def save(self) -> None:
        """Write the file if there is something new, and remove those of other compilers."""
        if not self._new:
            return
        self._new = False
        with suppress(OSError, pickle.PicklingError):
            folder = self._path.parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(folder.lstat()):
                return
            content = pickle.dumps(self._policies(), pickle.HIGHEST_PROTOCOL)
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".")
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, self._path)
            for other in folder.glob(f"{PREFIX}*"):
                if other != self._path:
                    other.unlink()

    def _policies(self) -> dict[str, CompiledPolicy]:
        if self._known is None:
            self._known = _read(self._path)
        return self._known


@cache
def rules_cache() -> RulesCache | None:
    """Return the cache of this process, None if nothing is to be kept."""
    directory = os.environ.get(DIRECTORY, "")
    return RulesCache(directory) if directory else None


def program_hash() -> str:
    """Return a hash of what compiles rules."""
    found = hashlib.sha256(f"{__version__} {sys.version} {np.__version__}".encode())
    root = Path(__file__).parents[2]
    for package in COMPILING:
        for folder, _, names in sorted(os.walk(root / package)):
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    content = Path(folder, name).read_bytes()
                    found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:32]


def _is_ours(state: os.stat_result) -> bool:
    """Return whether only this user can write a file or a directory."""
    return state.st_uid == os.geteuid() and not state.st_mode & 0o022


def _read(path: Path) -> dict[str, CompiledPolicy]:
    """Return the policies of a file; none if there is none, or one that is not to be trusted."""
    try:
        if not _is_ours(path.parent.lstat()):
            return {}
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            if not (stat.S_ISREG(state.st_mode) and _is_ours(state) and state.st_size <= LARGEST):
                return {}
            data = file.read()
    except OSError:
        return {}
    content = data[_CHECKSUM:]
    if hashlib.sha256(content).digest() != data[:_CHECKSUM]:
        return {}
    try:
        found = pickle.loads(content)  # noqa: S301 - written by this user's own program
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the rules are compiled
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: one for key, one in found.items() if isinstance(one, CompiledPolicy)}
