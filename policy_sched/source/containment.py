"""Which files may be read because another file, or a directory, leads to them.

A test names policies, and a directory may hold symbolic links: in CI both come from
an untrusted change. What they lead to is read only below a directory that the command was
given, or if it is a file of ours; nothing else of it is ever shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from policy_sched.source.reading import read_bytes

GROUPS: Final = ("policysched.dev/", "kubescheduler.config.k8s.io/")
"""Prefixes of the apiVersions of the files that are read here, manifests apart."""

_OURS: Final = re.compile(
    rb"""(?:^(?:---\s*)?|[{,])\s*["']?apiVersion["']?\s*:\s*["']?(?:%b)"""
    % b"|".join(re.escape(group.encode()) for group in GROUPS),
    re.MULTILINE,
)
_ANY: Final = re.compile(rb"""^[-{\s,]*["']?apiVersion["']?\s*:""", re.MULTILINE)
_LARGEST: Final = 8 << 20


def is_ours(data: bytes) -> bool:
    """Tell whether a text, well formed or not, states an apiVersion of ours."""
    return _OURS.search(data) is not None


def is_file_of_ours(path: str | Path, pattern: re.Pattern[bytes] = _OURS) -> bool:
    """Tell whether a file can be read and is ours."""
    try:
        return pattern.search(read_bytes(path, _LARGEST)) is not None
    except (OSError, EOFError):
        return False


def leads_out(path: str | Path, roots: Iterable[str | Path]) -> bool:
    """Tell whether a path, all symbolic links followed, is below none of the directories."""
    real = Path(os.path.realpath(path))
    return not any(real.is_relative_to(os.path.realpath(root)) for root in roots)


def is_stray_link(path: Path, root: Path, *, manifest: bool = False) -> bool:
    """Tell whether a file found below ``root`` is a link out of it to a file that is not ours.

    ``manifest``: nor one that states any apiVersion.
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
