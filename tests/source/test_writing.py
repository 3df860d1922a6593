"""Writing files: what takes a name, who may read it, and the links that a stranger laid there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy_sched.source import check_links, replacing, write_file, written_in_place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of a stranger, beside the home of the user."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/profile").write_text("mine\n", encoding="utf-8")
    (tmp_path / "repository/.git").mkdir(parents=True)
    return tmp_path / "repository"


def test_a_link_is_replaced_and_what_it_leads_to_stays(repository: Path) -> None:
    """A report that a link in the repository led to a shell's start file was written into that."""
    link = repository / "report.html"
    link.symlink_to("../home/profile")
    write_file(link, b"new")
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"
    assert (repository.parent / "home/profile").read_text("utf-8") == "mine\n"


@pytest.mark.parametrize("parents", [False, True])
def test_a_folder_that_a_link_takes_out_of_the_repository_is_refused(
    repository: Path, parents: bool
) -> None:
    """Results in a folder of the repository were written to any folder of the user."""
    (repository / "results").symlink_to("../home")
    with pytest.raises(
        PermissionError, match=r"results is a symbolic link to .*home, which is out"
    ):
        write_file(repository / "results/runs/a.json", b"x", parents=parents)
    assert [path.name for path in (repository.parent / "home").iterdir()] == ["profile"]


def test_links_inside_of_a_repository_and_without_one_are_followed(repository: Path) -> None:
    """A user's own link to a larger disk leads where it should."""
    (repository / "a").mkdir()
    (repository / "b").symlink_to("a")
    write_file(repository / "b/x", b"1")
    assert (repository / "a/x").read_bytes() == b"1"
    (repository.parent / "large").symlink_to("home")
    write_file(repository.parent / "large/x", b"2")
    assert (repository.parent / "home/x").read_bytes() == b"2"


def test_a_private_file_is_private_whatever_was_there(tmp_path: Path) -> None:
    """Names that were to be kept secret were readable for all where the file existed before."""
    there = tmp_path / "names.json"
    there.write_text("{}", encoding="utf-8")
    there.chmod(0o644)
    write_file(there, b"secret", private=True)
    assert there.stat().st_mode & 0o777 == 0o600


def test_the_mode_of_a_file_stays_and_a_new_one_has_that_of_the_umask(tmp_path: Path) -> None:
    """As editors do; without the bits that give a program another user's rights."""
    there = tmp_path / "a"
    there.write_text("", encoding="utf-8")
    there.chmod(0o4750)
    write_file(there, b"1")
    assert there.stat().st_mode & 0o7777 == 0o750
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "b", b"2")
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o7777 == 0o640


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    """Nobody reads half of a file, and nothing unfinished stays."""
    there = tmp_path / "a"
    there.write_text("old", encoding="utf-8")
    with pytest.raises(TypeError), replacing(there) as file:
        file.writelines([b"half of it", 1])  # type: ignore[list-item]
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [("a", "old")]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """A directory, a pipe, and a link to an open file such as /dev/stdout stay."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    for name in ("folder", "pipe", "out"):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            write_file(tmp_path / name, b"")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/none/a"):
        write_file(tmp_path / "none/a", b"")


def test_a_link_is_mended_where_it_leads_but_not_outside(repository: Path) -> None:
    """Formatting a link that a repository brings wrote to any file of the user."""
    (repository / "a").write_text("", encoding="utf-8")
    (repository / "inside").symlink_to("a")
    (repository / "outside").symlink_to("../home/profile")
    assert written_in_place(repository / "a") == repository / "a"
    assert written_in_place(repository / "inside") == repository / "a"
    with pytest.raises(PermissionError, match="outside is a symbolic link to"):
        written_in_place(repository / "outside")


def test_what_changes_where_it_is_lies_inside(repository: Path) -> None:
    """A log in the repository was appended to a shell's start file, to which a link led."""
    (repository / "log").symlink_to("../home/profile")
    (repository / "new").symlink_to("../home/new")
    (repository / "folder").symlink_to("../home")
    for name in ("log", "new", "folder", "folder/log"):
        with pytest.raises(PermissionError, match=r"is a symbolic link to .*, which is out"):
            check_links(repository / name)
    (repository / "a").write_bytes(b"")
    (repository / "inside").symlink_to("a")
    check_links(repository / "inside")
    (repository.parent / "outside").symlink_to("home/profile")
    check_links(repository.parent / "outside")
