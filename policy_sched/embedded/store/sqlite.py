"""Objects in an SQLite file: acknowledged changes survive a killed process.

Theory of operation: every change is one transaction in the write-ahead log, written to the
operating system before the response is sent. A killed process loses nothing that way, since the
system has the bytes; a machine that loses power may lose the last transactions, but never half of
one (``synchronous=NORMAL``; FULL would wait for the disk at every change). The file belongs to one
process at a time.

Opening a damaged file fails, with a hint how to repair it. While changes cannot be written (the
disk is full, say) each of them is refused with `NotWritten`, and nothing else happens.

The version of the last change that was kept, in a small file beside the database.

SQLite recovers what a damaged or missing write-ahead log still gives, and does not tell what is
lost. This number is written after every change, in place, so that the next process can tell.

The last part finds where a write-ahead log is damaged. The log is a header and records (frames) of
one page each, with a running checksum. SQLite reads records up to the first one that is not whole,
and says nothing of what comes after it. Records behind the last one may be left over from before
the log began anew: these have other salts. The form is that of
https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import struct
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from typing import IO, Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.store.watch_history import DELETED, StoreChange
from policy_sched.errors import ClusterError
from policy_sched.source import check_links

SUFFIX: Final = "-version"
_FORM: Final = struct.Struct("<QQ")
_CHECK: Final = 0x9E3779B97F4A7C15
"""What the second number differs by from the first, bit by bit: a torn one is not believed."""


class KeptVersion:
    """The number beside a database; 0 if there is none that can be believed."""

    def __init__(self, database: str) -> None:
        self._file: int | None = None
        self.value = 0
        with suppress(OSError):  # the number is a help, and missed by nothing but the help
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(f"{database}{SUFFIX}", flags, 0o600)
            content = os.pread(self._file, _FORM.size, 0)
            if len(content) == _FORM.size:
                version, check = _FORM.unpack(content)
                self.value = version if version ^ _CHECK == check else 0

    def write(self, version: int) -> None:
        """Replace the number."""
        self.value = version
        if self._file is not None:
            with suppress(OSError):
                os.pwrite(self._file, _FORM.pack(version, version ^ _CHECK), 0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_FORMAT: Final = 1
"""Version of the tables below, in the file's user_version."""
_TABLES: Final = """
CREATE TABLE objects (
    api_version TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, json BLOB NOT NULL,
    PRIMARY KEY (api_version, kind, namespace, name)
) WITHOUT ROWID;
CREATE TABLE counter (version INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
"""
_SECRETS: Final = "CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
"""Also added to existing files; earlier releases ignore this table."""
_OWNERS: Final = "CREATE TABLE IF NOT EXISTS deleted_owners (uid TEXT PRIMARY KEY)"
"""Deleted objects of which dependents may be left. Also added to existing files."""
SECRET_BYTES: Final = 32
_WRITE: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_READ: Final = (
    "SELECT api_version, kind, namespace, name, version, CAST(json AS BLOB) FROM objects"
    " ORDER BY version"
)
_REMOVE: Final = (
    "DELETE FROM objects WHERE api_version = ? AND kind = ? AND namespace = ? AND name = ?"
)
_NOTE: Final = "INSERT OR IGNORE INTO deleted_owners VALUES (?)"

_PROBE: Final = "INSERT OR REPLACE INTO secrets VALUES ('probe', zeroblob(?))"
_PROBED: Final = "DELETE FROM secrets WHERE name = 'probe'"
_LEAST: Final = 16 * 1024
"""Bytes that must fit before changes count as written again."""
_TRIED: Final = (
    "SELECT api_version, kind, namespace, name, version, json FROM objects LIMIT 0",
    "SELECT name, value FROM secrets LIMIT 0",
    "SELECT uid FROM deleted_owners LIMIT 0",
)
_OTHERS: Final = """
SELECT (SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger'))
    + ((SELECT count(*) FROM pragma_table_info('objects')) != 6)
    + ((SELECT count(*) FROM pragma_table_info('counter')) != 1)
    + ((SELECT count(*) FROM pragma_table_info('secrets')) != 2)
    + ((SELECT count(*) FROM pragma_table_info('deleted_owners')) != 1)
"""
_NO_SECRETS: Final = """
SELECT max(name) FROM secrets
    WHERE name != 'probe' AND (typeof(value) != 'blob' OR length(value) < 16)
"""
MOST_VERSIONS: Final = 2**62
"""Versions that a cluster may have: SQLite counts to 2**63."""
INSUFFICIENT_STORAGE: Final = 507
_REASON: Final = "InsufficientStorage"

Row = tuple[str, str, str, str, int, bytes]
"""API version, kind, namespace, name, version and JSON of an object."""
Statement = tuple[str, tuple[str | int | bytes, ...]]
"""SQL, and its values."""


class NotWritten(ApiError):  # noqa: N818 - it is what happened to the change
    """A change could not be written, and did not happen: the disk is full, or fails."""

    def __init__(self, path: str, error: sqlite3.Error) -> None:
        cure = f"make room on the disk of {path}; writes go on by themselves then"
        message = f"the change could not be written: {error}; {cure}"
        super().__init__(INSUFFICIENT_STORAGE, _REASON, message)


class Storage:
    """Where changes are kept beyond the life of the process; this one keeps nothing.

    ``failing``: why changes could not be written of late, "" if they can be, as far as is known.
    ``lost``: what the file does not hold any more although it was kept, "" for nothing.
    """

    lost = failing = ""

    def __init__(self) -> None:
        self._secrets: dict[str, bytes] = {}

    def version(self) -> int:
        """Return the version of the last change that was kept."""
        return 0

    def write_error(self) -> str:
        """Return why changes cannot be written at present, "" if they can."""
        return ""

    def recovered(self) -> bool:
        """Return whether changes can be written again; true once after each time they could not."""
        return False

    def rows(self) -> Iterator[Row]:
        """Yield the objects that are kept, in the order in which they were last changed."""
        return iter(())

    def keep(self, changes: Sequence[StoreChange], owners: Sequence[str] = ()) -> None:
        """Keep changes, and uids of owners that they delete, all or none. Raises NotWritten."""

    def deleted_owners(self, owners: Container[str]) -> set[str]:  # noqa: ARG002 - overridden
        """Return the uids of deleted objects that are `owners` yet; forget the others."""
        return set()

    def secret(self, name: str) -> bytes:
        """Return the secret of a name: random bytes, made at the first call."""
        return self._secrets.setdefault(name, secrets.token_bytes(SECRET_BYTES))

    def close(self) -> None:
        """Close the file."""


class SqliteStorage(Storage):
    """An SQLite file; made if it is not there, so that only its owner can read it."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises ClusterError if it is in use, damaged, or something else."""
        super().__init__()
        self._path = path
        self.lost = ""
        self.failing = ""
        self._refused = 0
        """Bytes of the largest change that could not be written, 0 while changes can be."""
        self._written = False
        self._recovered = False
        try:
            check_links(path)
        except OSError as error:
            raise ClusterError(f"{path}: {error.strerror}") from None
        before = _size(path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600))
        except OSError as error:
            cure = f"make it writable, or {_NAME}"
            raise ClusterError(f"{path}: cannot be opened: {error.strerror}; {cure}") from None
        try:
            # A step may be done in another thread than the rest, never while that does anything.
            self._connection = sqlite3.connect(
                path, timeout=0.5, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ClusterError(f"{path}: {_words(path, error)}") from None
        try:
            self._prepare()
            self._check()
            self._kept = KeptVersion(path)
            self._compare(before)
        except sqlite3.Error as error:
            self._connection.close()
            raise ClusterError(f"{path}: {_words(path, error)}") from None
        except ClusterError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run, path = self._connection.execute, self._path
        run("PRAGMA locking_mode = EXCLUSIVE")
        # Nothing is changed in a file that is not ours, not even the mode of its journal.
        version: int = run("PRAGMA user_version").fetchone()[0]
        if version == 0 and run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise ClusterError(f"{path}: a database, but not one of a cluster; {_NAME}")
        if version not in (0, _FORMAT):
            text = f"written in format {version}, read is format {_FORMAT}"
            raise ClusterError(f"{path}: {text}: use the version that wrote it, or {_NAME}")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        # The lock of the exclusive mode is taken by the first transaction.
        run("BEGIN IMMEDIATE")
        if version == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                run(statement)
            run(f"PRAGMA user_version = {_FORMAT}")
        run(_SECRETS)
        run(_OWNERS)
        run("COMMIT")

    def _check(self) -> None:
        """Check the file. Raises ClusterError, or sqlite3.Error."""
        run, path = self._connection.execute, self._path
        verdict = run("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise ClusterError(f"{path}: damaged ({' '.join(verdict.split())}); {_repair(path)}")
        try:
            others = run(_OTHERS).fetchone()[0]
            for query in _TRIED:
                run(query)
            counted = run("SELECT version FROM counter").fetchall()
            (secret,) = run(_NO_SECRETS).fetchone()
        except sqlite3.OperationalError as error:
            raise ClusterError(f"{path}: damaged ({error}); {_repair(path)}") from None
        problem = "a table has other columns, views or triggers" if others else ""
        if len(counted) != 1 or not isinstance(counted[0][0], int):
            problem = "no version is counted"
        elif not 0 <= counted[0][0] < MOST_VERSIONS:
            problem = f"the version is {counted[0][0]}"
        if problem or secret:
            problem = problem or f"the secret {secret!r} is not a text of bytes"
            raise ClusterError(f"{path}: damaged ({problem}); {_repair(path)}")

    def _compare(self, before: int | None) -> None:
        """Compare the version of the file with the last one that was kept, and tell what is lost.

        ``before``: bytes of the file before it was opened, None if it was not there. Raises
        ClusterError if everything is lost.
        """
        version, kept, path = self.version(), self._kept.value, self._path
        log, beside = f"{path}-wal", f"{path}{SUFFIX}"
        if before is None or version >= kept:
            # Without the number beside it, only the log itself can tell.
            damage = log_damage(path) if before is not None and kept == 0 else ""
            if damage:
                self.lost = f"{path}: changes after version {version} are lost: {log} is {damage}"
            self._kept.write(version)
            return
        if version == 0:
            self._connection.close()
            with suppress(OSError):
                if before == 0:
                    os.truncate(path, 0)
            self._kept.close()
            text = f"empty, although a cluster of version {kept} was kept in it"
            cure = f"or delete {path} and {beside} to begin a new cluster"
            raise ClusterError(f"{path}: {text}: bring it back from a copy with {log}, {cure}")
        lost = f"the last {kept - version} changes (versions {version + 1} to {kept}) are lost"
        damage = log_damage(path) or "missing, or the file is an older copy"
        self.lost = f"{path}: {lost}: {log} is {damage}"
        self._connection.execute("UPDATE counter SET version = ?", (kept,))

    def version(self) -> int:
        """Return the version of the last change that was kept."""
        counter: int = self._connection.execute("SELECT version FROM counter").fetchone()[0]
        return counter

    def rows(self) -> Iterator[Row]:
        """Yield the objects that are kept, in the order in which they were last changed."""
        try:
            yield from self._connection.execute(_READ)
        except sqlite3.Error as error:
            raise ClusterError(f"{self._path}: {_words(self._path, error)}") from None

    def write_error(self) -> str:
        """Return why changes cannot be written; try to write as much as could not be written."""
        if self._refused:
            with suppress(NotWritten):
                self._write([(_PROBE, (self._refused,)), (_PROBED, ())])
                self._refused, self.failing, self._recovered = 0, "", True
        return self.failing

    def recovered(self) -> bool:
        """Return whether changes can be written again; true once after each time they could not."""
        if self._refused and self._written:
            self._written = False
            self.write_error()
        was_recovered, self._recovered = self._recovered, False
        return was_recovered

    def deleted_owners(self, owners: Container[str]) -> set[str]:
        """Return the uids of deleted objects that are `owners` yet; forget the others."""
        query = "SELECT uid FROM deleted_owners WHERE typeof(uid) = 'text'"
        kept = {uid for (uid,) in self._connection.execute(query)}
        over = sorted(uid for uid in kept if uid not in owners)
        if over:
            with suppress(NotWritten):
                self._write([("DELETE FROM deleted_owners WHERE uid = ?", (uid,)) for uid in over])
        return kept.difference(over)

    def keep(self, changes: Sequence[StoreChange], owners: Sequence[str] = ()) -> None:
        """Keep changes in one transaction. Raises NotWritten if that fails."""
        statements: list[Statement] = []
        for change in changes:
            stored = change.new
            row = (*stored.resource.key, *stored.namespaced_name)
            if change.type == DELETED:
                statements.append((_REMOVE, row))
            else:
                statements.append((_WRITE, (*row, stored.version, stored.raw)))
        statements += [(_NOTE, (uid,)) for uid in owners]
        version = changes[-1].version
        self._write([*statements, ("UPDATE counter SET version = ?", (version,))])
        self._kept.write(version)

    def _write(self, statements: Sequence[Statement]) -> None:
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            for statement, values in statements:
                run(statement, values)
            run("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):  # the disk may fail that, too: nothing was committed
                if self._connection.in_transaction:
                    run("ROLLBACK")
            size = sum(len(v) for _, values in statements for v in values if isinstance(v, bytes))
            self.failing, self._refused = str(error), max(self._refused, size, _LEAST)
            raise NotWritten(self._path, error) from None
        self._written = True

    def secret(self, name: str) -> bytes:
        """Return the secret of a name. Raises NotWritten if it cannot be kept."""
        query = "SELECT value FROM secrets WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        if row is None:
            made = secrets.token_bytes(SECRET_BYTES)
            self._write([("INSERT INTO secrets VALUES (?, ?)", (name, made))])
            return made
        value: bytes = row[0]
        return value

    def close(self) -> None:
        """Close the file."""
        self._kept.close()
        with suppress(sqlite3.Error):  # what is in the log is read from it the next time
            self._connection.close()


_NAME: Final = "name another file with --data"


def _repair(path: str) -> str:
    """Return what can be done about a damaged file."""
    save = f"sqlite3 {path} .recover | sqlite3 saved.db"
    return f"bring it back from a copy, save what can be read ({save}), or {_NAME}"


def _size(path: str) -> int | None:
    """Return the bytes of a file, None if it is not there. Raises ClusterError if it is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClusterError(f"{path}: cannot be opened: {error.strerror}; {_NAME}") from None
    except ValueError:
        raise ClusterError(f"{path!r}: no name of a file; {_NAME}") from None
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise ClusterError(f"{path}: cannot be opened: it is {what}; {_NAME}")
    return status.st_size


def _words(path: str, error: sqlite3.Error) -> str:
    """Return what SQLite's error means for a file, and what can be done."""
    kind = getattr(error, "sqlite_errorname", "") or ""
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"in use by another process: end that one, or {_NAME}"
    if kind.startswith("SQLITE_CORRUPT"):
        return f"damaged ({error}); {_repair(path)}"
    if kind.startswith("SQLITE_READONLY"):
        return f"cannot be written ({error}): make it and its directory writable, or {_NAME}"
    if kind.startswith("SQLITE_CANTOPEN"):
        text = f"cannot be opened with its log {path}-wal ({error})"
        return f"{text}: make both files, and their directory, writable, or {_NAME}"
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return f"cannot be read and written ({error}): is its disk full?"
    return f"cannot be opened as a database: {error}; {_repair(path)}"


_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = (0x377F0682, 0x377F0683)
_LARGEST_PAGE: Final = 1 << 16
MAX_LOG: Final = 64 << 20
"""Bytes of a log that are looked at."""

Sums = tuple[int, int]


def log_damage(path: str) -> str:
    """Return where the log of a database is damaged, "" if it is whole, missing or not readable."""
    try:
        with open(f"{path}-wal", "rb") as log:
            return _damage(log)
    except OSError:
        return ""


def _damage(log: IO[bytes]) -> str:
    head = log.read(_HEADER.size)
    if not head:
        return ""
    magic, _, page, *_ = words = _HEADER.unpack(head.ljust(_HEADER.size, b"\0"))
    order = ">" if magic & 1 else "<"
    if len(head) < _HEADER.size:
        return f"cut after {len(head)} bytes"
    sums = _summed(head[:24], order, (0, 0))
    if magic not in _MAGIC or not 512 <= page <= _LARGEST_PAGE or sums != words[6:]:
        return "damaged at byte 0"
    salts = words[4:6]
    record, at = 0, _HEADER.size
    while at < MAX_LOG and (frame := log.read(_FRAME.size)):
        record += 1
        fields = _FRAME.unpack(frame.ljust(_FRAME.size, b"\0"))
        if len(frame) >= 16 and fields[2:4] != salts:
            return ""
        content = log.read(page) if len(frame) == _FRAME.size else b""
        if len(content) < page:
            return f"cut in record {record}, after {at + len(frame) + len(content)} bytes"
        sums = _summed(content, order, _summed(frame[:8], order, sums))
        if sums != fields[4:]:
            return f"damaged in record {record}, from byte {at}"
        at += _FRAME.size + page
    return ""


def _summed(data: bytes, order: str, sums: Sums) -> Sums:
    """Return the running checksum after more words of 32 bits, of which there is an even number."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
