"""A log in files that are rotated: whole lines, each file readable by itself, and a full disk."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import msgspec
import pytest

from policy_sched.instance.observability.rotated_log import LARGEST, RotatedLog
from policy_sched.instance.shadow.log import NodeSeen, ShadowRecord, Start

DECODER = msgspec.json.Decoder(ShadowRecord)


def log_of(path: Path, troubles: list[str] | None = None, largest: int = LARGEST) -> RotatedLog:
    """Return a log whose first record is always the same."""

    def begin(continues: bool) -> Start:
        return Start(1.0, "other", "ours", (), continues)

    return RotatedLog(str(path), begin, (troubles if troubles is not None else []).append, largest)


def read(path: Path) -> list[ShadowRecord]:
    """Return the records of a file."""
    return [DECODER.decode(line) for line in path.read_bytes().splitlines()]


def test_a_file_begins_with_how_things_are(tmp_path: Path) -> None:
    """Once, with or without a call of `begin`."""
    log = log_of(tmp_path / "log")
    log.begin()
    log.write(NodeSeen("a"))
    log.write(NodeSeen("b", {"cpu": 1}))
    log.close()
    log.close()
    start, *rest = read(tmp_path / "log")
    assert isinstance(start, Start)
    assert rest == [NodeSeen("a"), NodeSeen("b", {"cpu": 1})]
    assert (tmp_path / "log").stat().st_mode & 0o007 == 0


def test_a_second_process_appends_after_a_line_that_was_broken_off(tmp_path: Path) -> None:
    """Its lines stay, and the new records are whole."""
    (tmp_path / "log").write_bytes(b'{"record":"node","no')
    log = log_of(tmp_path / "log")
    log.write(NodeSeen("a"))
    log.close()
    first, *rest = (tmp_path / "log").read_bytes().splitlines()
    assert first == b'{"record":"node","no'
    assert [type(DECODER.decode(line)) for line in rest] == [Start, NodeSeen]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_was_moved_away_is_followed_by_a_new_one(
    tmp_path: Path, *, replaced: bool
) -> None:
    """As logrotate does it, with or without making the next file."""
    log = log_of(tmp_path / "log")
    log.write(NodeSeen("a"))
    (tmp_path / "log").rename(tmp_path / "log.1")
    if replaced:
        (tmp_path / "log").touch()
    log.write(NodeSeen("b"))
    log.close()
    before, after = read(tmp_path / "log.1"), read(tmp_path / "log")
    assert [type(one) for one in before] == [Start, NodeSeen]
    assert before[0] == Start(1.0, "other", "ours", ())
    assert after == [Start(1.0, "other", "ours", (), continues=True), NodeSeen("b")]


def test_a_large_file_is_rotated(tmp_path: Path) -> None:
    """It becomes FILE.1 and replaces an older one; no record is missing in between."""
    log = log_of(tmp_path / "log", largest=120)
    for number in range(9):
        log.write(NodeSeen(f"node-{number}"))
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]
    before, after = read(tmp_path / "log.1"), read(tmp_path / "log")
    assert isinstance(after[0], Start)
    assert after[0].continues
    seen = [one.node for one in (*before[1:], *after[1:]) if isinstance(one, NodeSeen)]
    assert seen == [f"node-{number}" for number in range(9)][-len(seen) :]


def test_write_failures_are_counted_and_logged_once(tmp_path: Path) -> None:
    """The directory is gone: lines are lost; when it is back they are written again."""
    folder = tmp_path / "logs"
    folder.mkdir()
    troubles: list[str] = []
    log = log_of(folder / "log", troubles)
    log.write(NodeSeen("a"))
    (folder / "log").unlink()
    folder.rmdir()
    log.write(NodeSeen("b"))
    log.write(NodeSeen("c"))
    assert log.lost == 2
    assert troubles == [f"{folder}/log: No such file or directory"]
    folder.mkdir()
    log.write(NodeSeen("d"))
    log.close()
    assert read(folder / "log") == [Start(1.0, "other", "ours", ()), NodeSeen("d")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_does_no_harm() -> None:
    """Every line is refused."""
    troubles: list[str] = []
    log = log_of(Path("/dev/full"), troubles)
    log.write(NodeSeen("a"))
    log.close()
    assert troubles == ["/dev/full: No space left on device"]


def test_a_line_of_which_only_a_part_was_written_is_broken_off(tmp_path: Path) -> None:
    """The next record begins on a line of its own."""
    log = log_of(tmp_path / "log")
    log.begin()
    size = (tmp_path / "log").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        log.write(NodeSeen("a"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.lost == 1
    log.write(NodeSeen("b"))
    log.close()
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert [len(line) for line in lines][1] == 10
    assert [type(DECODER.decode(line)) for line in lines[2:]] == [Start, NodeSeen]


def test_a_file_that_cannot_be_opened_is_reported_at_once(tmp_path: Path) -> None:
    """Before anything runs."""
    with pytest.raises(OSError, match="No such file"):
        log_of(tmp_path / "nowhere" / "log")


def test_a_link_out_of_a_repository_is_not_followed(tmp_path: Path) -> None:
    """A decision log in a stranger's repository was appended to a start file of the user."""
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "profile").write_bytes(b"mine\n")
    (tmp_path / "repository/log").symlink_to("../profile")
    with pytest.raises(PermissionError, match=r"log is a symbolic link to .*profile, which is out"):
        log_of(tmp_path / "repository/log")
    assert (tmp_path / "profile").read_bytes() == b"mine\n"
