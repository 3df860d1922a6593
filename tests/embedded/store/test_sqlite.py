"""Clusters in a file: what was acknowledged is there again, whatever ended the process."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import POD
from policy_sched.errors import ClusterError
from tests.embedded.kill_run import run
from tests.embedded.world import World, pod, workload

KILLS = 5
"""More of them by hand: python -m tests.embedded.kill_run 50."""


def test_a_closed_cluster_continues_where_it_was(tmp_path: Path) -> None:
    """Objects, versions, and what the kubelets and controllers were about to do."""
    path = str(tmp_path / "cluster.db")
    world = World(path=path)
    world.cluster.apply(pod("p", duration="60"))
    world.cluster.apply(workload("Deployment", replicas=2))
    world.run(2)
    world.delete(POD, world.names()[1])
    before = {
        (stored.resource.key, stored.namespaced_name): stored.raw
        for stored in world.store.everything()
    }
    version, now = world.store.version, world.clock.ns
    world.cluster.close()

    again = World(nodes=0, path=path)
    again.clock.ns = now
    after = {
        (stored.resource.key, stored.namespaced_name): stored.raw
        for stored in again.store.everything()
    }
    assert after == before
    assert again.store.version == version
    again.run(70)
    assert again.phases() == ["Succeeded", "Running", "Running"]
    again.cluster.close()


def test_secrets_stay_and_only_the_owner_can_read_them(tmp_path: Path) -> None:
    """A token that was signed before a restart is worth as much after it; others' files differ."""
    paths = [str(tmp_path / name) for name in ("a.db", "b.db")]
    items = []
    for path in (*paths, paths[0]):
        world = World(nodes=0, path=path)
        items.append(world.store.storage.secret("key"))
        assert world.store.storage.secret("key") == items[-1] != world.store.storage.secret("other")
        assert Path(path).stat().st_mode & 0o077 == 0
        world.cluster.close()
    assert items[0] == items[2] != items[1]
    assert [len(key) for key in items] == [32] * 3


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    """The second one gets an error."""
    path = str(tmp_path / "cluster.db")
    world = World(path=path)
    with pytest.raises(ClusterError, match="in use by another process"):
        World(path=path)
    world.cluster.close()


def test_a_link_out_of_a_repository_is_refused(tmp_path: Path) -> None:
    """A database in a stranger's repository was made wherever a link in it led."""
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/cluster.db").symlink_to("../profile")
    with pytest.raises(ClusterError, match=r"cluster\.db is a symbolic link to .*, which is outsi"):
        World(path=str(tmp_path / "repository/cluster.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["repository"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A text, a database of something else, and a cluster of another version."""
    text = tmp_path / "text"
    text.write_text("hello, this is no database\n" * 100)
    with pytest.raises(ClusterError, match="cannot be opened as a database"):
        World(path=str(text))
    other = str(tmp_path / "other.db")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE things (name TEXT)")
    connection.close()
    with pytest.raises(ClusterError, match="not one of a cluster"):
        World(path=other)
    later = str(tmp_path / "later.db")
    World(path=later).cluster.close()
    with sqlite3.connect(later) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ClusterError, match="written in format 99"):
        World(path=later)


def test_a_change_that_cannot_be_kept_did_not_happen(tmp_path: Path) -> None:
    """The disk is full, say: the request fails and nothing of it is seen."""
    world = World(path=str(tmp_path / "cluster.db"))
    watch = world.store.watch(POD)
    connection = world.store.storage._connection  # type: ignore[attr-defined]
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    version = world.store.version
    big = pod("p")
    big["metadata"]["annotations"] = {"text": "x" * 100_000}
    with pytest.raises(ClusterError, match="could not be written"):
        world.store.create(big)
    assert (world.store.version, watch.drain()) == (version, [])
    connection.execute("PRAGMA max_page_count = 1000000")
    world.store.create(big)
    world.cluster.delete(Key(POD, "default", "p"))
    world.cluster.close()


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Every acknowledged object and binding is there, and no pod is bound or counted twice."""
    tally = run(str(tmp_path / "cluster.db"), KILLS, seed=7)
    assert tally.kills == KILLS
    assert tally.versions
    assert tally.nodes
