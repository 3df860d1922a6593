"""Watches files and directories, and reports when what they hold has changed.

Theory of operation. Editors write a temporary file and rename it, and the kubelet swaps the
``..data`` link of a mounted ConfigMap: the file itself sees no event, its directory does. So
directories are watched, all events mean "look", and hashes of contents decide. Files are read again
after an event if one of them is another file or was written to since: a log in the same directory
is an event with each line. Where events do not arrive (network file systems, a directory that was
replaced) a slow poll, which reads all, finds the change. A file mounted by subPath never changes,
which is worth a warning.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles import load

#: Compare the contents this often without an event, in milliseconds.
POLL: Final = 10_000
#: Events that come within this time of each other are one, in milliseconds. A change is seen after
#: one to two of them; a thread wakes up as often, whether anything changes or not.
QUIET: Final = 160
#: Never wait for quiet longer than this, in milliseconds.
PATIENCE: Final = 400

NEVER_CHANGES: Final = "PS712"


@dataclass(slots=True)
class Watched:
    """Paths and what they held when they were looked at last; pure but for the looking.

    ``listing`` returns the files of a path.
    """

    paths: tuple[str, ...]
    listing: Callable[[Path], Iterable[Path]] = load.with_schemas
    last: load.Fingerprint = field(default_factory=dict)
    _states: dict[str, load.State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.last:
            self.last = load.fingerprint(self.paths, self.listing)

    def look(self, *, closely: bool = True) -> tuple[str, ...]:
        """Look again; return the files that changed since the last look, empty if none did.

        ``closely``: read files, too, that seem to be as they were.
        """
        states = load.states(self.paths, self.listing)
        if not closely and states == self._states:
            return ()
        self._states = states
        now = load.fingerprint(self.paths, self.listing)
        changed = load.changed_files(self.last, now)
        self.last = now
        return changed

    def directories(self) -> tuple[str, ...]:
        """Return the directories in which something must happen when a file changes.

        A path that is gone is waited for in the nearest directory above that exists.
        """
        folders: dict[str, None] = {}
        for path in self.paths:
            for folder in _places(Path(path)):
                folders[str(folder)] = None
        return tuple(folders)


def _places(path: Path) -> list[Path]:
    """Return the directory of a path, and those that the links on the way point into."""
    folder = path if path.is_dir() else path.parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    real = Path(os.path.realpath(path))
    behind = real if real.is_dir() else real.parent
    places = [folder]
    if behind.is_dir() and not behind.samefile(folder):
        places.append(behind)
    return places


async def changes(
    watched: Sequence[Watched], stop: asyncio.Event, *, poll: int = POLL
) -> AsyncIterator[tuple[Watched, tuple[str, ...]]]:
    """Yield each watched set that changed, and its changed files, until `stop` is set.

    Changes between the last read and the first event are reported, too. ``poll`` is in
    milliseconds. When a directory was replaced it is watched anew.
    """
    while not stop.is_set():
        directories = _identities(watched)
        end = _End(stop)
        events = _events([path for path, _ in directories], end, poll)
        # Events are caught from the first step of the generator on: only then is it time to look.
        event = asyncio.ensure_future(anext(events, None))
        try:
            await asyncio.sleep(0)
            happened: bool | None = False
            while True:
                for source in watched:
                    files = source.look(closely=not happened)
                    if files:
                        yield source, files
                if stop.is_set() or _identities(watched) != directories:
                    break
                happened = await event
                if happened is None:
                    break
                event = asyncio.ensure_future(anext(events, None))
        finally:
            end.set()
            await asyncio.wait([event])
            await events.aclose()


class _End:
    """The end of one watch: its own, or that of all."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._set = False

    def set(self) -> None:
        """End this watch."""
        self._set = True

    def is_set(self) -> bool:
        """Is it time to end?"""
        return self._set or self._stop.is_set()


async def _events(paths: Sequence[str], end: _End, poll: int) -> AsyncGenerator[bool, None]:
    """Yield True when something happened in one of the directories, False after each `poll`."""
    # imported here: only a running instance watches
    from watchfiles import awatch  # noqa: PLC0415
    from watchfiles._rust_notify import WatchfilesRustInternalError  # noqa: PLC0415

    try:
        events = awatch(
            *paths,
            watch_filter=None,
            debounce=PATIENCE,
            step=QUIET,
            stop_event=end,
            rust_timeout=poll,
            yield_on_timeout=True,
        )
        async for files in events:
            yield bool(files)
    except FileNotFoundError:
        return  # a directory went between two looks; the next look finds where to watch
    except ExceptionGroup as group:
        if group.split(WatchfilesRustInternalError)[1] is not None:
            raise
        for _ in range(
            1 + poll // QUIET
        ):  # an event about a name that is no text: the poll finds it
            if not end.is_set():
                await asyncio.sleep(QUIET / 1000)


def _identities(watched: Iterable[Watched]) -> list[tuple[str, tuple[int, int]]]:
    """Return the directories with what identifies each."""
    identities: dict[str, tuple[int, int]] = {}
    for source in watched:
        for path in source.directories():
            try:
                stat = os.stat(path)
            except OSError:
                continue
            identities[path] = (stat.st_dev, stat.st_ino)
    return sorted(identities.items())


def frozen_mounts(paths: Iterable[str], mountinfo: str) -> list[Diagnostic]:
    """Return a warning for each file that is a mount of its own (subPath): it never changes.

    ``mountinfo`` is the text of ``/proc/self/mountinfo``; its fifth field is the mount point.
    """
    points = {
        fields[4].replace("\\040", " ")
        for fields in (line.split() for line in mountinfo.splitlines())
        if len(fields) > 4
    }
    text = "the file is mounted by itself (subPath): changes of its ConfigMap do not arrive here"
    hint = "mount the directory"
    return [
        Diagnostic(path, 1, 1, NEVER_CHANGES, text, hint, severity=Severity.WARNING)
        for path in paths
        if os.path.isfile(path) and os.path.abspath(path) in points
    ]
