"""What files hold, as hashes of their contents: comparing two shows whether anything changed.

Contents decide, not times: an editor may touch a file without changing anything. What identifies a
file and its last change only saves reading it again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Final, TypeAlias

from policy_sched.language.diagnostics import field_names
from policy_sched.profiles.load.document import files_below
from policy_sched.source import MAX_BYTES

_PLAIN: Final = (str, int, float, type(None))


_COMPARED: Final[dict[type, tuple[str, ...]]] = {}


def content_hash(value: object) -> str:
    """Return the SHA-256 (hex) of plain data and records, the same in every process.

    Fields that do not take part in comparisons do not count: places in files.
    """
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: object) -> str:
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__}:{value!r}"
    compared = _compared(type(value))
    if compared:
        parts = [f"{name}={_canonical(getattr(value, name))}" for name in compared]
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{_canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_canonical(item) for item in value) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(_canonical(item) for item in value)) + "}"
    return f"{type(value).__name__}:{value!r}"


def _compared(kind: type) -> tuple[str, ...]:
    """Return the fields by which objects of a record are compared; none of other types."""
    names = _COMPARED.get(kind)
    if names is None:
        apart = (
            {field.name for field in fields(kind) if not field.compare}
            if is_dataclass(kind)
            else ()
        )
        names = _COMPARED[kind] = tuple(name for name in field_names(kind) if name not in apart)
    return names


Fingerprint: TypeAlias = Mapping[str, str]
"""SHA-256 (hex) of contents by file; an empty string for a file that cannot be read."""

UNREADABLE: Final = ""


def fingerprint(
    paths: Iterable[str], listing: Callable[[Path], Iterable[Path]] = files_below
) -> Fingerprint:
    """Return the state of files and directories.

    ``listing`` returns the files of a path. What vanishes while it is looked at
    counts as unreadable, so that the next look sees a change.
    """
    return {file: _hash(Path(file)) for file in states(paths, listing)}


State: TypeAlias = tuple[int, ...]
"""What identifies a file and its last change; empty for one that cannot be read."""


def states(
    paths: Iterable[str], listing: Callable[[Path], Iterable[Path]] = files_below
) -> dict[str, State]:
    """Return the state of each file, links followed; see `fingerprint`."""
    states_by_file: dict[str, State] = {}
    for path in paths:
        try:
            files = [*map(str, listing(Path(path)))]
        except OSError:
            files = [path]
        for file in files:
            states_by_file[file] = _state(file)
    return states_by_file


def changed_files(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """Return the files that were added, removed or changed, sorted."""
    return tuple(
        sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
    )


def _state(file: str) -> State:
    try:
        seen = os.stat(file)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _hash(file: Path) -> str:
    try:
        seen = file.stat()
        if not stat.S_ISREG(seen.st_mode):
            return UNREADABLE
        if seen.st_size > MAX_BYTES:  # nothing reads it; another size is a change
            return f"{seen.st_size} bytes"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return UNREADABLE
