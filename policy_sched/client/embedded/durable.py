"""Objects in an SQLite file: whatever was answered is there again after the process was killed.

Theory of operation: every change is one transaction in the write-ahead log, written to the
operating system before it is answered. A killed process loses nothing that way, since the system
has the bytes; a machine that loses power may lose the last transactions, but never half of one
(``synchronous=NORMAL``; FULL would wait for the disk at every change). The file belongs to one
process at a time.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from policy_sched.client.embedded.history import DELETED, Change
from policy_sched.errors import ClusterError

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
"""Made in files of before, too: who does not know it leaves it alone."""
SECRET_BYTES: Final = 32
_WRITE: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_READ: Final = (
    "SELECT api_version, kind, namespace, name, version, json FROM objects ORDER BY version"
)
_REMOVE: Final = (
    "DELETE FROM objects WHERE api_version = ? AND kind = ? AND namespace = ? AND name = ?"
)

Row = tuple[str, str, str, str, int, bytes]
"""API version, kind, namespace, name, version and JSON of an object."""


class Storage(Protocol):
    """Where changes are kept beyond the life of the process."""

    def version(self) -> int:
        """Return the version of the last change that was kept."""

    def rows(self) -> Iterator[Row]:
        """Yield the objects that are kept, in the order in which they were last changed."""

    def keep(self, changes: Sequence[Change]) -> None:
        """Keep changes, all of them or none. Raises ClusterError if that fails."""

    def secret(self, name: str) -> bytes:
        """Return the secret of a name: random bytes that were made when it was first asked for."""

    def close(self) -> None:
        """Let go of the file."""


class Forgetful:
    """Keeps nothing: a cluster that lives in memory."""

    def __init__(self) -> None:
        self._secrets: dict[str, bytes] = {}

    def version(self) -> int:
        """Return 0: nothing was kept."""
        return 0

    def rows(self) -> Iterator[Row]:
        """Yield nothing."""
        return iter(())

    def keep(self, changes: Sequence[Change]) -> None:
        """Do nothing."""

    def secret(self, name: str) -> bytes:
        """Return random bytes, the same as long as this lives."""
        return self._secrets.setdefault(name, secrets.token_bytes(SECRET_BYTES))

    def close(self) -> None:
        """Do nothing."""


class SqliteStorage:
    """An SQLite file; made if it is not there, so that only its owner can read it."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises ClusterError if it is in use, or something else."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise ClusterError(f"{path}: cannot be opened: {error.strerror}") from None
        try:
            # A step may be done in another thread than the rest, never while that does anything.
            self._connection = sqlite3.connect(
                path, timeout=0.5, isolation_level=None, check_same_thread=False
            )
            self._prepare(path)
        except sqlite3.Error as error:
            raise ClusterError(f"{path}: {_words(error)}") from error

    def _prepare(self, path: str) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        # The lock of the exclusive mode is taken by the first transaction.
        run("BEGIN IMMEDIATE")
        found: int = run("PRAGMA user_version").fetchone()[0]
        if found == 0:
            if run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise ClusterError(f"{path}: a database, but not one of a cluster")
            for statement in filter(str.strip, _TABLES.split(";")):
                run(statement)
            run(f"PRAGMA user_version = {_FORMAT}")
        elif found != _FORMAT:
            raise ClusterError(f"{path}: written in format {found}, read is format {_FORMAT}")
        run(_SECRETS)
        run("COMMIT")

    def version(self) -> int:
        """Return the version of the last change that was kept."""
        found: int = self._connection.execute("SELECT version FROM counter").fetchone()[0]
        return found

    def rows(self) -> Iterator[Row]:
        """Yield the objects that are kept, in the order in which they were last changed."""
        yield from self._connection.execute(_READ)

    def keep(self, changes: Sequence[Change]) -> None:
        """Keep changes in one transaction. Raises ClusterError if that fails."""
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            for change in changes:
                one = change.new
                place = (*one.resource.key, *one.place)
                if change.type == DELETED:
                    run(_REMOVE, place)
                else:
                    run(_WRITE, (*place, one.version, one.raw))
            run("UPDATE counter SET version = ?", (changes[-1].version,))
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise ClusterError(f"the change could not be written: {error}") from error

    def secret(self, name: str) -> bytes:
        """Return the secret of a name. Raises ClusterError if it cannot be kept."""
        run = self._connection.execute
        try:
            run(
                "INSERT OR IGNORE INTO secrets VALUES (?, ?)",
                (name, secrets.token_bytes(SECRET_BYTES)),
            )
            found: bytes = run("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0]
        except sqlite3.Error as error:
            raise ClusterError(f"a secret could not be kept: {error}") from error
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def _words(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return "in use by another process"
    return f"cannot be opened as a database: {error}"
