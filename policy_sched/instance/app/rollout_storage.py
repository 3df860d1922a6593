"""Where the state of a rollout is kept: a file, the lease of the election, or only in memory.

A record is written as it was read or written last, or not at all: of two schedulers that both
believe to lead, the second one is refused.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from policy_sched.errors import ClusterError
from policy_sched.profiles.reload import is_place
from policy_sched.rollout import Action, State, StateError, read_state
from policy_sched.source import write_file

MOST: Final = 64 * 1024 * 1024
"""Bytes of a record in a file."""
MOST_PACKED: Final = 64 * 1024
"""Bytes of a record in an annotation, which each renewal of the lease sends again."""
MOST_IN_STATUS: Final = 512 * 1024
"""Bytes of texts in the status of an object, packed; an object may have 1.5 MiB."""
ANNOTATION: Final = "policysched.dev/rollout"
Done = Callable[[str], None]
"""Is told that something is written, or with a text why it is not."""
CHANGED: Final = "it was changed by another scheduler meanwhile"


class Record(msgspec.Struct, frozen=True):
    """The state of a rollout, and the texts of the set that is in force by it, by place.

    ``fault``: why there is a state that cannot be read, of a newer scheduler for example.
    """

    state: State | None
    sources: dict[str, str]
    fault: str = ""

    def text(self) -> str:
        """Return the record as JSON."""
        held = _Held(None if self.state is None else self.state.text(), self.sources)
        return msgspec.json.encode(held).decode()


class _Held(msgspec.Struct):
    state: str | None
    sources: dict[str, str]


def read_record(text: str) -> Record:
    """Return a record. Raises StateError with the reason."""
    try:
        held = msgspec.json.decode(text, type=_Held)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StateError(f"the record cannot be read: {error}") from None
    return record_of(held.state, held.sources)


def record_of(state: str | None, sources: dict[str, str]) -> Record:
    """Return a record; the texts hold whether the state can be read or not.

    Raises StateError for texts that are in no place of a folder.
    """
    for name in sources:
        if name.startswith("/") and not is_place(name):
            raise StateError(f"it has a text in {name}, which is no place of one")
    try:
        return Record(None if state is None else read_state(state), sources)
    except StateError as error:
        return Record(None, sources, str(error))


class RolloutStorage:
    """Keeps one record; this one for as long as the process lives."""

    def __init__(self) -> None:
        self._record: Record | None = None

    def excess(self, record: Record) -> str:  # noqa: ARG002 - for those with less room
        """Return why a record is too large, and what helps, or nothing."""
        return ""

    def read(self) -> Record | None:
        """Return the record, None if there is none. Raises ClusterError or StateError."""
        return self._record

    def write(self, record: Record, done: Done) -> None:
        """Write the record, now or later; ``done`` is called in either case."""
        self._record = record
        done("")

    def requested(self, state: State) -> Action | None:  # noqa: ARG002 - for objects
        """Return what is asked of the candidate where the record is kept."""
        return None


def excess(size: int, most: int, remedy: str) -> str:
    """Return why so many bytes are too many, or nothing."""
    what = f"the policies in force take {size} bytes there, the limit is {most}; {remedy}"
    return what if size > most else ""


class FileStorage(RolloutStorage):
    """A file; it is replaced as a whole."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._last: str | None = None

    def _text(self) -> str | None:
        """Return what the file holds, None if there is none. Raises ClusterError."""
        try:
            if self._path.stat().st_size > MOST:
                raise ClusterError(f"{self._path}: more than {MOST} bytes")
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeError) as error:
            raise ClusterError(f"{self._path}: {error}") from None

    def read(self) -> Record | None:
        """Return the record. Raises ClusterError or StateError."""
        self._last = self._text()
        return None if self._last is None else read_record(self._last)

    def write(self, record: Record, done: Done) -> None:
        """Replace the file if it is still what was read or written last."""
        text = record.text()
        if why := excess(len(text), MOST, "select fewer policies"):
            done(why)
            return
        try:
            if self._text() != self._last:
                done(CHANGED)
                return
            write_file(self._path, text.encode(), private=True)
        except (OSError, ClusterError) as error:
            done(str(error))
            return
        self._last = text
        done("")


def require_state(path: str) -> None:
    """Raise ClusterError or OSError for a file that is no record, and for one that cannot be."""
    file, begins = Path(path).absolute(), Record(None, {}).text().partition("null")[0].encode()
    head, there = b"", file.is_file()
    if there:
        with file.open("rb") as opened:
            head = opened.read(len(begins))
    absent = not file.exists() and file.parent.is_dir()
    if not (there or absent) or not begins.startswith(head):
        why = "is no state of a rollout; name a file of its own, in a folder that is there"
        raise ClusterError(f"{path}: {why}")


class AnnotatedLease(Protocol):
    """A lease that is renewed time and again, with an annotation."""

    def annotation(self, name: str) -> str | None:
        """Return the annotation as it was read or written last."""

    def annotate(self, name: str, value: str, done: Done) -> None:
        """Write an annotation with the next renewal."""


class LeaseStorage(RolloutStorage):
    """An annotation of the lease, packed; only the holder of the lease writes it."""

    def __init__(self, lease: AnnotatedLease) -> None:
        self._lease = lease

    def excess(self, record: Record) -> str:
        """Return why a record is too large, or nothing."""
        return excess(len(packed(record.text())), MOST_PACKED, "use --rollout-state")

    def read(self) -> Record | None:
        """Return the record. Raises StateError."""
        held = self._lease.annotation(ANNOTATION)
        where = f"annotation {ANNOTATION} of the lease"
        return read_record(unpacked(held, where)) if held else None

    def write(self, record: Record, done: Done) -> None:
        """Write the record with the next renewal of the lease."""
        self._lease.annotate(ANNOTATION, packed(record.text()), done)


def packed(text: str) -> str:
    """Return a text so that it takes little room in an object."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(held: str, where: str) -> str:
    """Return what was packed. Raises StateError."""
    unpacking = zlib.decompressobj()
    try:
        return unpacking.decompress(base64.b64decode(held, validate=True), MOST).decode()
    except (ValueError, zlib.error) as error:
        raise StateError(f"{where}: {error}") from None
