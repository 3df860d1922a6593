"""Watching directories: contents decide, however they got there."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from policy_sched.profiles.load.fingerprint import changed_files, fingerprint
from policy_sched.profiles.reload import watch
from policy_sched.profiles.reload.watch import Watched, changes, frozen_mounts

DOCS = Path(__file__).parents[3] / "docs"
BOUND = 60.0
"""Seconds after which a test gives up; nothing takes that long."""


def config_map(mount: Path, version: str, text: str) -> None:
    """Write a ConfigMap's file as the kubelet does: a new directory, and a link swapped to it."""
    folder = mount / f"..{version}"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    (mount / "..data_tmp").symlink_to(folder.name)
    os.replace(mount / "..data_tmp", mount / "..data")
    if not (mount / "policy.yaml").exists():
        (mount / "policy.yaml").symlink_to("..data/policy.yaml")


class TestWatched:
    """The pure part: a directory's state, and whether it differs from the last one."""

    def test_equal_contents_differ_in_nothing_whatever_their_times(self, tmp_path: Path) -> None:
        """Two looks at the same contents differ in nothing, whatever the times of files say."""
        file = tmp_path / "a.yaml"
        file.write_text("a: 1", encoding="utf-8")
        watched = Watched((str(tmp_path),))
        os.utime(file, (1, 1))
        assert watched.look() == ()

    def test_the_schema_beside_a_named_policy_is_watched(self, tmp_path: Path) -> None:
        """A schema that changed counted only where its directory was given."""
        file, schema = tmp_path / "a.yaml", tmp_path / "crd.yaml"
        file.write_text("- {name: x, schema: crd.yaml, poll: 1s}", encoding="utf-8")
        schema.write_text("a: 1", encoding="utf-8")
        watched = Watched((str(file),))
        schema.write_text("a: 2", encoding="utf-8")
        assert watched.look(closely=False) == (str(schema),)

    def test_a_log_beside_the_policies_costs_no_reading(self, tmp_path: Path) -> None:
        """With its log in the directory of the policies, a scheduler hashed them with each line."""
        file = tmp_path / "a.yaml"
        file.write_text("x: 1", encoding="utf-8")
        listed: list[Path] = []

        def listing(path: Path) -> list[Path]:
            listed.append(path)
            return [file]

        watched = Watched((str(tmp_path),), listing)
        watched.look()
        listed.clear()
        (tmp_path / "scheduler.log").write_text("a line", encoding="utf-8")
        assert watched.look(closely=False) == ()
        assert len(listed) == 1, "files are listed to see what they are, and not to read them"
        file.write_text("x: 22", encoding="utf-8")
        assert watched.look(closely=False) == (str(file),)

    def test_a_change_is_reported_once(self, tmp_path: Path) -> None:
        """What came, went or changed is named; the next look compares with this."""
        for name in "abc":
            (tmp_path / f"{name}.yaml").write_text("x: 1", encoding="utf-8")
        watched = Watched((str(tmp_path),))
        (tmp_path / "a.yaml").write_text("x: 2", encoding="utf-8")
        (tmp_path / "b.yaml").unlink()
        (tmp_path / "d.yaml").write_text("x: 1", encoding="utf-8")
        names = [Path(file).name for file in watched.look()]
        assert names == ["a.yaml", "b.yaml", "d.yaml"]
        assert watched.look() == ()

    def test_a_temporary_file_that_is_renamed(self, tmp_path: Path) -> None:
        """The editor's own file is no event; the rename is."""
        file = tmp_path / "a.yaml"
        file.write_text("x: 1", encoding="utf-8")
        watched = Watched((str(tmp_path),))
        other = tmp_path / ".a.yaml.swp"
        other.write_text("x: 2", encoding="utf-8")
        assert watched.look() == ()
        os.replace(other, file)
        assert watched.look() == (str(file),)

    def test_a_config_map_is_swapped(self, tmp_path: Path) -> None:
        """A link that points elsewhere is a change, and one to equal contents is none."""
        config_map(tmp_path, "1", "x: 1")
        watched = Watched((str(tmp_path),))
        config_map(tmp_path, "2", "x: 1")
        assert watched.look() == ()
        config_map(tmp_path, "3", "x: 2")
        assert watched.look() == (str(tmp_path / "policy.yaml"),)

    def test_what_is_gone_has_a_state_too(self, tmp_path: Path) -> None:
        """A path that is not there is unreadable, and comes back as a change."""
        path = tmp_path / "later" / "a.yaml"
        watched = Watched((str(path),))
        assert watched.look() == ()
        assert watched.directories() == (str(tmp_path),)
        path.parent.mkdir()
        path.write_text("x: 1", encoding="utf-8")
        assert watched.look() == (str(path),)
        assert watched.directories() == (str(path.parent),)

    def test_links_are_watched_at_both_ends(self, tmp_path: Path) -> None:
        """A directory reached by a link changes where it really is."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        (tmp_path / "real" / "a.yaml").write_text("x: 1", encoding="utf-8")
        watched = Watched((str(tmp_path / "link" / "a.yaml"), str(tmp_path / "link")))
        assert str(tmp_path / "link") in watched.directories()


def test_a_fingerprint_is_of_contents(tmp_path: Path) -> None:
    """The same texts have the same hashes, and differences are named."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("same", encoding="utf-8")
    found = fingerprint([str(tmp_path)])
    assert len(set(found.values())) == 1
    assert changed_files(found, found) == ()
    assert changed_files({}, found) == tuple(sorted(found))


def test_a_file_mounted_by_itself_is_warned_of(tmp_path: Path) -> None:
    """subPath mounts never change, which a warning reports."""
    file = tmp_path / "my policy.yaml"
    file.write_text("x: 1", encoding="utf-8")
    mount = str(file).replace(" ", "\\040")
    table = f"36 35 98:0 /pods/x {mount} rw,noatime - ext4 /dev/sda1 rw\nshort\n"
    (found,) = frozen_mounts([str(file), str(tmp_path)], table)
    assert (found.file, found.code) == (str(file), "PS712")
    assert frozen_mounts([str(file)], "") == []


@pytest.mark.parametrize("poll", [20, 60_000], ids=["by polling", "by events"])
def test_changes_arrive(tmp_path: Path, poll: int) -> None:
    """Renames, swapped links and replaced directories are noticed, by events and by polling."""
    plain, mount = tmp_path / "plain", tmp_path / "mount"
    plain.mkdir()
    (plain / "a.yaml").write_text("x: 1", encoding="utf-8")
    config_map(mount, "1", "x: 1")

    async def scenario() -> list[str]:
        stop = asyncio.Event()
        watched = [Watched((str(plain), str(plain / "a.yaml"))), Watched((str(mount),))]
        found: list[str] = []
        (plain / "new").write_text("x: 2", encoding="utf-8")
        os.replace(plain / "new", plain / "a.yaml")
        async for one, files in changes(watched, stop, poll=poll):
            found.append(Path(one.paths[0]).name + "/" + Path(files[0]).name)
            if len(found) == 1:
                config_map(mount, "2", "x: 2")
            elif len(found) == 2:
                (plain / "new").write_text("x: 3", encoding="utf-8")
                os.replace(plain / "new", plain / "a.yaml")
            else:
                stop.set()
        return found

    found = asyncio.run(asyncio.wait_for(scenario(), BOUND))
    assert found == ["plain/a.yaml", "mount/policy.yaml", "plain/a.yaml"]


def test_a_replaced_directory_is_watched_anew(tmp_path: Path) -> None:
    """A directory that is swapped for another one is found by the poll, and then by events."""
    folder, other = tmp_path / "policies", tmp_path / "other"
    for place, text in ((folder, "x: 1"), (other, "x: 2")):
        place.mkdir()
        (place / "a.yaml").write_text(text, encoding="utf-8")

    async def scenario() -> int:
        stop = asyncio.Event()
        count = 0
        os.replace(folder, tmp_path / "old")
        os.replace(other, folder)
        watched = [Watched((str(folder),), last={str(folder / "a.yaml"): ""})]
        async for _ in changes(watched, stop, poll=50):
            count += 1
            if count == 1:
                os.replace(folder, tmp_path / "older")
                folder.mkdir()
                (folder / "a.yaml").write_text("x: 3", encoding="utf-8")
            elif count == 2:
                (folder / "a.yaml").write_text("x: 4", encoding="utf-8")
            else:
                stop.set()
        return count

    assert asyncio.run(asyncio.wait_for(scenario(), BOUND)) == 3


def test_a_name_that_is_no_text_ends_no_watch(tmp_path: Path) -> None:
    """An event about it ended the process; its file, and others, are polled."""
    odd, file = tmp_path / os.fsdecode(b"b\xff.yaml"), tmp_path / "a.yaml"
    for path in (odd, file):
        path.write_text("x: 1", encoding="utf-8")

    async def scenario() -> list[str]:
        stop, found = asyncio.Event(), list[str]()
        watched = Watched((str(tmp_path),))
        odd.write_text("x: 2", encoding="utf-8")
        async for _, files in changes([watched], stop, poll=200):
            found += files
            if len(found) == 1:
                odd.write_text("x: 3", encoding="utf-8")
            elif len(found) == 2:
                file.write_text("x: 2", encoding="utf-8")
            else:
                stop.set()
        return found

    found = asyncio.run(asyncio.wait_for(scenario(), BOUND))
    assert found == [str(odd), str(odd), str(file)]


class _Looks(asyncio.Event):
    """An end that never comes; the thread that watches asks for it each time that it wakes up."""

    count = 0

    def is_set(self) -> bool:
        """Count."""
        self.count += 1
        return super().is_set()


def test_a_watch_in_which_nothing_changes_hardly_wakes_up(tmp_path: Path) -> None:
    """A scheduler without pods woke up 25 times a second to look for changed policies."""

    async def scenario() -> int:
        looks = _Looks()
        events = watch._events([str(tmp_path)], watch._End(looks), poll=1000)
        assert await anext(events) is False
        await events.aclose()
        return looks.count

    assert 2 <= asyncio.run(asyncio.wait_for(scenario(), BOUND)) <= 10


def test_the_docs_say_when_a_changed_file_is_noticed() -> None:
    """Operators could not tell whether a policy is not read yet or not read at all."""
    soonest, latest, patience = watch.QUIET, 2 * watch.QUIET, watch.PATIENCE + watch.QUIET
    text = " ".join((DOCS / "operating.md").read_text(encoding="utf-8").split())
    assert f"noticed {soonest} to {latest} ms after it was written" in text
    assert f"at the latest {patience} ms after the first" in text
    assert f"every {watch.POLL // 1000} s" in text
