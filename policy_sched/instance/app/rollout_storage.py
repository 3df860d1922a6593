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
from policy_sched.rollout import Action, State, read_state
from policy_sched.source import write_file

MOST: Final = 64 * 1024 * 1024
"""Bytes of a record in a file."""
MOST_PACKED: Final = 64 * 1024
"""Bytes of a record in an annotation, which each renewal of the lease sends again."""
ANNOTATION: Final = "policysched.dev/rollout"
Done = Callable[[str], None]
"""Is told that something is written, or with a text why it is not."""
CHANGED: Final = "it was changed by another scheduler meanwhile"


class Record(msgspec.Struct, frozen=True):
    """The state of a rollout, and the texts of the set that is in force by it, by path."""

    state: State | None
    sources: dict[str, str]

    def text(self) -> str:
        """Return the record as JSON."""
        held = _Held(None if self.state is None else self.state.text(), self.sources)
        return msgspec.json.encode(held).decode()


class _Held(msgspec.Struct):
    state: str | None
    sources: dict[str, str]


def read_record(text: str) -> Record:
    """Return a record. Raises StateError or msgspec.DecodeError with the reason."""
    held = msgspec.json.decode(text, type=_Held)
    return Record(None if held.state is None else read_state(held.state), held.sources)


class RolloutStorage(Protocol):
    """Keeps one record."""

    @property
    def most(self) -> int:
        """How many bytes it takes."""

    @property
    def remedy(self) -> str:
        """What helps where a record is larger."""

    def size(self, text: str) -> int:
        """Return how many bytes a record takes there."""

    def read(self) -> str | None:
        """Return the record, None if there is none. Raises ClusterError."""

    def write(self, text: str, done: Done) -> None:
        """Write the record, now or later; ``done`` is called in either case."""

    def requested(self, state: State) -> Action | None:
        """Return what is asked of the candidate where the record is kept."""


class _Unasked:
    """A storage without requests."""

    remedy = "use --rollout-state"

    def requested(self, state: State) -> Action | None:  # noqa: ARG002 - of the protocol
        """Return nothing."""
        return None


class MemoryStorage(_Unasked):
    """Forgets the record with the process."""

    most = MOST

    def __init__(self) -> None:
        self._record: str | None = None

    def size(self, text: str) -> int:
        """Return how many bytes a record takes there."""
        return len(text)

    def read(self) -> str | None:
        """Return the record."""
        return self._record

    def write(self, text: str, done: Done) -> None:
        """Keep the record."""
        self._record = text
        done("")


class FileStorage(_Unasked):
    """A file; it is replaced as a whole."""

    most = MOST

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._last: str | None = None

    def size(self, text: str) -> int:
        """Return how many bytes a record takes there."""
        return len(text.encode())

    def read(self) -> str | None:
        """Return the record, None if there is no file. Raises ClusterError."""
        try:
            if self._path.stat().st_size > MOST:
                raise ClusterError(f"{self._path}: more than {MOST} bytes")
            self._last = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._last = None
        except (OSError, UnicodeError) as error:
            raise ClusterError(f"{self._path}: {error}") from None
        return self._last

    def write(self, text: str, done: Done) -> None:
        """Replace the file if it is still what was read or written last."""
        last = self._last
        try:
            if self.read() != last:
                self._last = last
                done(CHANGED)
                return
            write_file(self._path, text.encode(), private=True)
        except (OSError, ClusterError) as error:
            done(str(error))
            return
        self._last = text
        done("")


class AnnotatedLease(Protocol):
    """A lease that is renewed time and again, with an annotation."""

    def annotation(self, name: str) -> str | None:
        """Return the annotation as it was read or written last."""

    def annotate(self, name: str, value: str, done: Done) -> None:
        """Write an annotation with the next renewal."""


class LeaseStorage(_Unasked):
    """An annotation of the lease, packed; only the holder of the lease writes it."""

    most = MOST_PACKED

    def __init__(self, lease: AnnotatedLease) -> None:
        self._lease = lease

    def size(self, text: str) -> int:
        """Return how many bytes a record takes there."""
        return len(packed(text))

    def read(self) -> str | None:
        """Return the record, None if there is none. Raises ClusterError."""
        held = self._lease.annotation(ANNOTATION)
        if not held:
            return None
        try:
            return unpacked(held)
        except (ValueError, zlib.error) as error:
            raise ClusterError(f"annotation {ANNOTATION} of the lease: {error}") from None

    def write(self, text: str, done: Done) -> None:
        """Write the record with the next renewal of the lease."""
        self._lease.annotate(ANNOTATION, packed(text), done)


def packed(text: str) -> str:
    """Return a text so that it takes little room in an object."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(held: str) -> str:
    """Return what was packed. Raises ValueError or zlib.error."""
    unpacking = zlib.decompressobj()
    return unpacking.decompress(base64.b64decode(held, validate=True), MOST).decode()
