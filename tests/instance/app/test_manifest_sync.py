"""Objects that come from files, and are deleted with them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.instance.app import manifest_sync
from policy_sched.testing import FakeClock

NODE_A = "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {zone: one}}\n"
POD_P = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: m}]}\n"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """An empty cluster in memory."""
    cluster = EmbeddedCluster.open(None, FakeClock())
    yield cluster
    cluster.close()


def sync(
    files: manifest_sync.ManifestFiles, cluster: EmbeddedCluster
) -> manifest_sync.AppliedManifests:
    """Read the files and apply them to the cluster."""
    return files.apply(files.read(), cluster)


def names(cluster: EmbeddedCluster) -> set[str]:
    """Return the names of all nodes and pods."""
    return {one.name for kind in (NODE, POD) for one in cluster.store.select(kind)}


def test_files_come_change_and_go(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """New and changed objects are applied, removed ones are deleted."""
    files = manifest_sync.ManifestFiles([str(tmp_path)])
    (tmp_path / "all.yaml").write_text(f"{NODE_A}---\n{POD_P}", encoding="utf-8")
    assert sync(files, cluster) == manifest_sync.AppliedManifests(("Node a", "Pod default/p"))
    assert sync(files, cluster) == manifest_sync.AppliedManifests()
    (tmp_path / "all.yaml").write_text(NODE_A.replace(": one", ": two"), encoding="utf-8")
    assert sync(files, cluster) == manifest_sync.AppliedManifests(("Node a",), ("Pod default/p",))
    assert cluster.store.get(NODE, "", "a").labels == {"zone": "two"}
    assert names(cluster) == {"a"}


def test_every_form_of_file(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """Lists, JSON, JSON lines and compressed files contain objects; hidden files are skipped."""
    one = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "%s"}}'
    (tmp_path / "a.json").write_text(one % "a", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(f"{one % 'b'}\n\n{one % 'c'}\n", encoding="utf-8")
    (tmp_path / "d.yaml.gz").write_bytes(gzip.compress((one % "d").encode()))
    (tmp_path / ".e.yaml").write_text(one % "e", encoding="utf-8")
    text = "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: f}\n- metadata: {name: g}\n"
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    done = sync(manifest_sync.ManifestFiles([str(tmp_path)]), cluster)
    assert not done.problems
    assert names(cluster) == set("abcdfg")


def test_others_objects_stay(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """Only objects from a file are deleted with it."""
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}})
    file = tmp_path / "node.yaml"
    file.write_text(NODE_A, encoding="utf-8")
    files = manifest_sync.ManifestFiles([str(tmp_path)])
    sync(files, cluster)
    assert cluster.store.get(NODE, "", "a").typed.metadata.annotations[
        manifest_sync.FROM_FILE
    ] == str(file)
    file.write_text("# nothing any more\n", encoding="utf-8")
    assert sync(files, cluster).deleted == ("Node a",)
    assert names(cluster) == {"theirs"}


def test_a_later_process_knows_what_came_from_files(
    tmp_path: Path, cluster: EmbeddedCluster
) -> None:
    """Objects name their file: those removed while no process ran are deleted."""
    (tmp_path / "node.yaml").write_text(NODE_A, encoding="utf-8")
    (tmp_path / "pod.yaml").write_text(POD_P, encoding="utf-8")
    sync(manifest_sync.ManifestFiles([str(tmp_path)]), cluster)
    (tmp_path / "pod.yaml").unlink()
    sync(manifest_sync.ManifestFiles([str(tmp_path)]), cluster)
    assert names(cluster) == {"a"}


def test_without_paths_nothing_happens(cluster: EmbeddedCluster) -> None:
    """Without files, objects from earlier files are kept."""
    data = {"metadata": {"name": "a", "annotations": {manifest_sync.FROM_FILE: "gone.yaml"}}}
    cluster.apply({"apiVersion": "v1", "kind": "Node", **data})
    assert sync(manifest_sync.ManifestFiles([]), cluster) == manifest_sync.AppliedManifests()
    assert names(cluster) == {"a"}


def test_one_mistake_keeps_everything(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """The cluster keeps the objects of the last valid files, and every problem has its position."""
    files = manifest_sync.ManifestFiles([str(tmp_path)])
    (tmp_path / "node.yaml").write_text(NODE_A, encoding="utf-8")
    sync(files, cluster)
    (tmp_path / "node.yaml").unlink()
    (tmp_path / "b.yaml").write_text(NODE_A.replace("a,", "b,"), encoding="utf-8")
    (tmp_path / "c.yaml").write_text(POD_P.replace("[{", "[["), encoding="utf-8")
    (tmp_path / "d.yaml").write_text(POD_P.replace("Pod", "Pot"), encoding="utf-8")
    done = sync(files, cluster)
    assert not done.applied
    assert not done.deleted
    assert {Path(problem.file).name for problem in done.problems} == {"c.yaml", "d.yaml"}
    assert names(cluster) == {"a"}


def test_what_the_cluster_refuses(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """One rejected object is reported with its line; the others are applied."""
    files = manifest_sync.ManifestFiles([str(tmp_path)])
    (tmp_path / "all.yaml").write_text(f"{NODE_A}---\n{POD_P}", encoding="utf-8")
    sync(files, cluster)
    changed = POD_P.replace("{name: m}", "{name: other}")
    text = f"{NODE_A.replace(': one', ': two')}---\n{changed}"
    (tmp_path / "all.yaml").write_text(text, encoding="utf-8")
    done = sync(files, cluster)
    assert done.applied == ("Node a",)
    (problem,) = done.problems
    assert (problem.code, problem.line) == (manifest_sync.REFUSED, 5)
    assert cluster.store.find(POD, "default", "p") is not None


def test_a_deleted_pod_stays_deleted(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    """An evicted pod is created again when its file changes, not at every change."""
    files = manifest_sync.ManifestFiles([str(tmp_path)])
    (tmp_path / "pod.yaml").write_text(POD_P, encoding="utf-8")
    sync(files, cluster)
    cluster.delete(Key(POD, "default", "p"))
    (tmp_path / "node.yaml").write_text(NODE_A, encoding="utf-8")
    assert sync(files, cluster).applied == ("Node a",)
    (tmp_path / "pod.yaml").write_text(POD_P.replace("p}", "p, labels: {a: b}}"), encoding="utf-8")
    assert sync(files, cluster).applied == ("Pod default/p",)
