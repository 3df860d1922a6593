"""Writes files of the user: each is a new file in its folder, which then takes the name.

A repository may come from a stranger, with symbolic links in it. So no existing file is ever opened
for writing. The new file has a random name, is created exclusively, and replaces whatever has the
given name, be it a link. A link to a folder outside of its own repository is refused; to write
there, name that folder itself. What is written stands on the disk before it gets its name: half of
it is never read.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from policy_sched.source.reading import leads_out

UNFINISHED: Final = ".unfinished-"
"""How the names of files begin that have not got their own one yet."""
PRIVATE: Final = 0o600
_OPEN: Final = 0o666


def write_file(
    path: str | Path, data: bytes, *, private: bool = False, parents: bool = False
) -> None:
    """Write a file, as `replacing` does. ``parents``: folders on the way to it are made."""
    if parents:
        _check_folder(Path(path))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, private=private) as file:
        file.write(data)


@contextmanager
def replacing(path: str | Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Give a file to write to, which replaces ``path`` at the end; after an exception it is gone.

    ``private``: only the owner may read it. Else it keeps the mode of the file that it replaces.
    Raises OSError: for a folder that is not there or leads out of its repository, and for a path
    of something else than a regular file or a link.
    """
    path = Path(path)
    _check_folder(path)
    mode = _mode_of(path)
    temporary = path.with_name(f"{UNFINISHED}{secrets.token_hex(16)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    created = PRIVATE if private or mode is not None else _OPEN
    try:
        handle = os.open(temporary, flags, created)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None and not private:
                os.fchmod(handle, mode)
            yield file
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def written_in_place(path: str | Path) -> Path:
    """Return the file that a name leads to, for commands that rewrite their input.

    Raises OSError if a link takes it out of its repository, or out of its folder without one.
    """
    path = Path(path)
    if not path.is_symlink():
        return path
    root = _repository_of(path) or path.parent
    if leads_out(path, (root,)):
        raise _refused(path, path, root)
    return Path(os.path.realpath(path))


def _mode_of(path: Path) -> int | None:
    """Return the mode of a regular file; None if there is none. Raises OSError for others."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISREG(mode):
        return mode & 0o777
    if stat.S_ISLNK(mode) and not os.readlink(path).startswith("/proc/"):  # as /dev/stdout does
        return None
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def check_links(path: str | Path) -> None:
    """Raise OSError if a link in a path leads out of the repository that has it.

    For what changes where it is, such as logs and databases.
    """
    full = Path(os.path.abspath(path))  # as it is written, with its links
    _check(Path(path), (full, *full.parents))


def _check_folder(path: Path) -> None:
    _check(path, Path(os.path.abspath(path)).parents)


def _check(path: Path, links: Iterable[Path]) -> None:
    for link in links:
        root = _repository_of(link) if link.is_symlink() else None
        if root is not None and leads_out(link, (root,)):
            raise _refused(path, link, root)


def _repository_of(path: Path) -> Path | None:
    """Return the closest directory above a path, as it is written, that holds a repository."""
    above = Path(os.path.abspath(path)).parents
    return next((folder for folder in above if (folder / ".git").exists()), None)


def _refused(path: Path, link: Path, root: Path) -> OSError:
    why = f"{link} is a symbolic link to {os.path.realpath(link)}, which is outside of {root}"
    return OSError(errno.EPERM, f"{why}; name that place itself", str(path))
