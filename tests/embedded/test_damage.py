"""Files of clusters that are damaged, or cannot be written: what is said, and what goes on."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import POD
from policy_sched.embedded.store.sqlite import NotWritten
from policy_sched.errors import ClusterError
from tests.embedded.world import World, pod, workload

PAGE = 4096


def made(path: Path, pods: int = 40) -> None:
    """Keep a cluster in a file."""
    world = World(path=str(path))
    for number in range(pods):
        world.store.create(pod(f"p{number}"))
    world.cluster.close()


def _sql(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    return change


def _bytes(at: int, content: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(content)

    return change


def _other(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        change(path)

    return replace


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no bytes left": (lambda path: os.truncate(path, 0), "empty, although a cluster of version"),
    "half a page left": (lambda path: os.truncate(path, PAGE // 2), "sqlite3 .* .recover"),
    "some pages left": (lambda path: os.truncate(path, 3 * PAGE), "sqlite3 .* .recover"),
    "another header": (_bytes(0, b"garbage, no header"), "bring it back from a copy"),
    "pages of noise": (_bytes(2 * PAGE, b"\xa5" * 3 * PAGE), "sqlite3 .* .recover"),
    "a page of zeros": (_bytes(PAGE, bytes(PAGE)), "bring it back from a copy"),
    "no objects": (_sql("DROP TABLE objects"), "damaged .*bring it back"),
    "no counter": (_sql("DROP TABLE counter"), "damaged .*bring it back"),
    "nothing counted": (_sql("DELETE FROM counter"), "no version is counted"),
    "a text counted": (_sql("UPDATE counter SET version = 'x'"), "no version is counted"),
    "a version below zero": (_sql("UPDATE counter SET version = -5"), "the version is -5"),
    "a version without end": (_sql("UPDATE counter SET version = ~(1 << 63)"), "the version is 9"),
    "a secret of text": (_sql("INSERT INTO secrets VALUES ('a', 'b')"), "the secret 'a'"),
    "a secret of nothing": (_sql("INSERT INTO secrets VALUES ('a', x'')"), "the secret 'a'"),
    "a column too many": (_sql("ALTER TABLE objects ADD COLUMN x"), "other columns"),
    "a trigger": (
        _sql("CREATE TRIGGER t AFTER INSERT ON objects BEGIN DELETE FROM objects; END"),
        "other columns, views or triggers",
    ),
    "a view": (
        _sql("ALTER TABLE objects RENAME TO o", "CREATE VIEW objects AS SELECT * FROM o"),
        "other columns, views or triggers",
    ),
    "other columns": (_sql("ALTER TABLE objects RENAME COLUMN json TO text"), "damaged"),
    "other secrets": (_sql("ALTER TABLE secrets RENAME COLUMN value TO v"), "damaged"),
    "a later format": (_sql("PRAGMA user_version = 7"), "format 7, .*use the version that wrote"),
    "something else's": (_other(_sql("CREATE TABLE t (a)")), "not one of a cluster; name another"),
    "a text": (_other(lambda path: path.write_text("text\n" * 999)), "cannot be opened as a data"),
    "a directory": (_other(Path.mkdir), "it is a directory; name another file"),
    "a pipe": (_other(os.mkfifo), "it is no regular file; name another file"),
    "a log that is a directory": (
        lambda path: Path(f"{path}-wal").mkdir(),
        "cannot be opened with its log .*-wal",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_damage_is_reported_with_a_remedy(kind: str, tmp_path: Path) -> None:
    """`run --data` ended with a traceback of sqlite3, or with nothing but its words."""
    damage, words = DAMAGE[kind]
    path = tmp_path / "cluster.db"
    made(path)
    damage(path)
    for _ in range(2):  # the first look does not make it worse
        with pytest.raises(ClusterError, match=words) as refused:
            World(nodes=0, path=str(path))
        assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize(
    "change",
    [
        "version = 'x'", "version = 1.25", "version = -1", "version = 9223372036854775807",
        "json = '{}'", "json = '[]'", "json = 'null'", "json = zeroblob(9)", "json = 5",
        "name = 'other'", "name = x'ff'", "namespace = 'other'", "kind = 'Service'", "kind = 5",
    ],
)  # fmt: skip
def test_objects_that_contradict_their_row_are_set_aside(change: str, tmp_path: Path) -> None:
    """They were served under one name and written under another, and controllers failed."""
    path = tmp_path / "cluster.db"
    made(path, 2)
    _sql(f"UPDATE objects SET {change} WHERE name = 'p0'")(path)
    world = World(nodes=0, path=str(path))
    assert (world.names(), len(world.store.set_aside)) == (["p1"], 1)
    world.store.create(pod("p0"))
    world.run(1)
    assert not world.store.sync_errors
    world.cluster.close()


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    """Its journal was turned into a write-ahead log before it was refused."""
    path = tmp_path / "other.db"
    _sql("CREATE TABLE t (a)")(path)
    before = path.read_bytes()
    with pytest.raises(ClusterError, match="not one of a cluster"):
        World(nodes=0, path=str(path))
    assert path.read_bytes() == before


def killed(path: Path, copy: Path) -> int:
    """Leave behind what a process that is killed leaves; return the version it had reached."""
    world = World(path=str(path))
    world.store.create(pod("early"))
    world.store.storage._connection.execute("PRAGMA wal_checkpoint(FULL)")  # type: ignore[attr-defined]
    world.store.create(pod("late"))
    for suffix in ("", "-wal", "-version"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    version = world.store.version
    world.cluster.close()
    return version


@pytest.mark.parametrize(
    ("damage", "position"),
    [
        ("missing", "missing, or the file is an older copy"),
        ("damaged", "damaged at byte 0"),
        ("cut", "cut after 10 bytes"),
    ],
)
def test_lost_changes_of_a_damaged_log_are_reported(
    damage: str, position: str, tmp_path: Path
) -> None:
    """SQLite goes on with what is left, and says nothing; versions do not go back."""
    path = tmp_path / "copy.db"
    version = killed(tmp_path / "cluster.db", path)
    log = Path(f"{path}-wal")
    if damage == "missing":
        log.unlink()
    else:
        content = bytearray(log.read_bytes())
        content[20] ^= 0xFF
        log.write_bytes(content if damage == "damaged" else content[:10])
    again = World(nodes=0, path=str(path))
    assert again.store.find(POD, "default", "early") is not None
    assert again.store.find(POD, "default", "late") is None
    assert (
        f"the last 1 changes (versions {version} to {version}) are lost" in again.store.storage.lost
    )
    assert f"{path}-wal is {position}" in again.store.storage.lost
    assert again.store.version >= version
    again.cluster.close()
    once_more = World(nodes=0, path=str(path))
    assert once_more.store.storage.lost == ""
    once_more.cluster.close()


RECORD = 24 + 4096
CUTS = {
    "cut": (lambda log: log[: 32 + 3 * RECORD + 1000], f"cut in record 4, after {13392} bytes"),
    "cut in a head": (lambda log: log[: 32 + 3 * RECORD + 9], "cut in record 4, after 12401 bytes"),
    "another bit": (
        lambda log: log[:9000] + bytes([log[9000] ^ 1]) + log[9001:],
        "damaged in record 3, from byte 8272",
    ),
}


@pytest.mark.parametrize("number", [True, False], ids=["with its number", "without"])
@pytest.mark.parametrize(("change", "position"), list(CUTS.values()), ids=CUTS)
def test_a_log_cut_in_the_middle_is_told_with_its_place(
    change: Callable[[bytes], bytes], position: str, number: bool, tmp_path: Path
) -> None:
    """What came after the cut was gone, and without the number beside it nobody was told."""
    path, copy = tmp_path / "cluster.db", tmp_path / "copy.db"
    world = World(nodes=0, path=str(path))
    world.store.storage._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
    for name in "abcdef":
        world.store.create(pod(name))
    for suffix in ("", "-wal", "-version")[: 3 if number else 2]:
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    world.cluster.close()
    log = Path(f"{copy}-wal")
    log.write_bytes(change(log.read_bytes()))
    again = World(nodes=0, path=str(copy))
    assert f"{copy}-wal is {position}" in again.store.storage.lost
    assert 0 < len(again.names()) < 6
    again.cluster.close()
    once_more = World(nodes=0, path=str(copy))
    assert once_more.store.storage.lost == ""
    once_more.cluster.close()


def test_a_log_that_is_whole_costs_nothing(tmp_path: Path) -> None:
    """Nor does a file without the number beside it, as older ones are."""
    path = tmp_path / "copy.db"
    killed(tmp_path / "cluster.db", path)
    Path(f"{path}-version").unlink()
    again = World(nodes=0, path=str(path))
    assert again.store.find(POD, "default", "late") is not None
    assert again.store.storage.lost == ""
    again.cluster.close()


def test_a_file_that_was_deleted_is_a_new_cluster(tmp_path: Path) -> None:
    """Whatever its number says, which is left behind."""
    path = tmp_path / "cluster.db"
    made(path)
    path.unlink()
    world = World(nodes=0, path=str(path))
    assert world.store.storage.lost == ""
    world.cluster.close()


def test_a_full_disk_refuses_changes_until_there_is_room(tmp_path: Path) -> None:
    """Controllers go on by themselves then; a Deployment made before has its pods."""
    world = World(path=str(tmp_path / "cluster.db"))
    connection = world.store.storage._connection  # type: ignore[attr-defined]
    world.store.create(workload("Deployment", replicas=3))
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = pod("big")
    big["metadata"]["annotations"] = {"text": "x" * 100_000}
    with pytest.raises(NotWritten, match="database or disk is full; make room on the disk") as no:
        world.store.create(big)
    assert no.value.status()["code"] == 507
    assert world.store.find(POD, "default", "big") is None
    connection.execute("PRAGMA max_page_count = 1000000")
    assert world.store.storage.write_error() == ""
    world.run(5)
    assert len(world.names()) == 3
    world.store.create(big)
    world.cluster.delete(Key(POD, "default", "big"))
    world.cluster.close()
