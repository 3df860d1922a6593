"""Tables of traces: known by their header, and every mistake has its place."""

from __future__ import annotations

import gzip
from pathlib import Path

from policy_sched.model.node import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import PodGroup
from policy_sched.simulate.trace_readers import TABLES, is_trace, load_traces

NODES, PODS, JOBS = TABLES


def written(path: Path, *lines: str) -> str:
    """Write a table and return its path."""
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def test_tables_are_known_by_their_header(tmp_path: Path) -> None:
    """Nodes, pods and jobs, packed or not, in the order of the files and rows."""
    found = load_traces(
        [
            written(tmp_path / "nodes.csv", NODES, "n,64000,262144,2,P100"),
            written(tmp_path / "pods.csv.gz", PODS, "p,12000,16384,1,1000,,LS,Running,0,90,5"),
            written(tmp_path / "jobs.csv", JOBS, "7,64,16,11cb48"),
        ]
    )
    assert found.diagnostics == []
    assert [type(one) for one in found.objects] == [Node, Pod, PodGroup, Pod, Pod]
    assert [one.metadata.name for one in found.objects] == [
        "n",
        "p",
        "job-000000",
        "job-000000-0",
        "job-000000-1",
    ]


def test_tables_are_told_from_manifests_by_their_name() -> None:
    """CSV, packed or not."""
    assert is_trace("a/b.csv")
    assert is_trace("b.csv.gz")
    assert not is_trace("b.yaml")


def test_every_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    """File, line and column of the cell, all of them at once."""
    path = written(
        tmp_path / "jobs.csv",
        JOBS,
        "7,64,16,11cb48",
        "x,64,0,11cb48",
        "7,64,16",
        "7,-1,1,",
    )
    found = load_traces([path])
    assert [(d.line, d.column, d.code) for d in found.diagnostics] == [
        (3, 1, "PS707"),
        (3, 6, "PS707"),
        (4, 1, "PS703"),
        (5, 3, "PS707"),
        (5, 8, "PS707"),
    ]
    assert found.diagnostics[1].render() == (
        f"{path}:3:6: error PS707: num_gpus: '0' is not a whole number of at least 1\n"
        "    3 | x,64,0,11cb48\n"
        "      |      ^"
    )
    assert len(found.objects) == 3, "the good rows are read"


def test_unknown_and_unreadable_files_are_reported(tmp_path: Path) -> None:
    """A header that no trace has; a file that is not what its name says."""
    other = written(tmp_path / "other.csv", "a,b", "1,2")
    empty = written(tmp_path / "empty.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"no gzip")
    found = load_traces([other, empty, str(broken)])
    assert [d.code for d in found.diagnostics] == ["PS706", "PS706", "PS701"]
    assert "submit_s,duration_s,num_gpus,vc" in found.diagnostics[0].hint


def test_an_object_is_there_once(tmp_path: Path) -> None:
    """The second one of a name is reported, with the place of the first."""
    path = written(tmp_path / "nodes.csv", NODES, "n,1,1,0,", "m,1,1,0,", "n,2,2,0,")
    found = load_traces([path])
    (problem,) = found.diagnostics
    assert (problem.line, problem.code) == (4, "PS708")
    assert problem.message == "Node n is there twice"
    assert problem.hint == f"the first one is at {path}:2"
