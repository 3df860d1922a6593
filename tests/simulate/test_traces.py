"""The objects of rows of traces."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.model.cluster_objects import Node
from policy_sched.model.formats import DURATION_ANNOTATION
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import PodGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import required_matches
from policy_sched.simulate import traces


def info_of(row: str) -> PodInfo:
    """Return the pod of a row of OpenB."""
    (pod,) = traces.openb_pod(0, row.split(","))
    assert isinstance(pod, Pod)
    return PodInfo.of(pod)


def test_a_node_of_openb_gives_gpus_in_thousandths() -> None:
    """With 1001 slots for pods and the model as a label; a node without GPUs has neither."""
    (node,) = traces.openb_node(0, ["n", "64000", "262144", "2", "P100"])
    assert isinstance(node, Node)
    assert node.status.allocatable == {
        "cpu": "64000m",
        "memory": "262144Mi",
        "pods": "1001",
        traces.GPU_MILLI: "2000",
    }
    assert node.metadata.labels[traces.GPU_MODEL] == "P100"
    (plain,) = traces.openb_node(0, ["n", "64000", "262144", "0", ""])
    assert isinstance(plain, Node)
    assert traces.GPU_MILLI not in plain.status.allocatable
    assert traces.GPU_MODEL not in plain.metadata.labels


def test_a_pod_of_openb_runs_from_its_scheduled_time_to_its_deletion() -> None:
    """Or from its creation, if it never was scheduled."""
    ran = info_of("p,12000,16384,2,1000,,LS,Running,10,100,25")
    assert ran.annotations[DURATION_ANNOTATION] == "75s"
    assert ran.creation_time == round((traces.EPOCH.timestamp() + 10) * 1e9)
    assert ran.requests == {"cpu": 12000, "memory": 16384 << 20, traces.GPU_MILLI: 2000}
    assert ran.labels == {"qos": "LS"}
    waited = info_of("p,12000,16384,0,0,,BE,Pending,10,100,")
    assert waited.annotations[DURATION_ANNOTATION] == "90s"
    assert traces.GPU_MILLI not in waited.requests


def test_a_pod_of_openb_may_need_certain_models() -> None:
    """Any of those that are named."""
    pod = info_of("p,1,1,1,460,T4|V100M16,LS,Running,0,1,0")
    assert pod.requests[traces.GPU_MILLI] == 460
    for model, fits in (("T4", True), ("V100M16", True), ("P100", False)):
        assert required_matches(pod.node_affinity, {traces.GPU_MODEL: model}, "n") is fits


@pytest.mark.parametrize(
    ("gpus", "workers"), [(1, [1]), (8, [8]), (12, [6, 6]), (16, [8, 8]), (24, [8, 8, 8])]
)
def test_a_job_of_philly_has_workers_of_up_to_eight_gpus(gpus: int, workers: list[int]) -> None:
    """Evenly, of one owner; several of them are one pod group in the virtual cluster."""
    objects = list(traces.philly_job(3, ["5", "64", str(gpus), "vc"]))
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    groups = [obj.min_count for obj in objects if isinstance(obj, PodGroup)]
    assert groups == ([len(workers)] if len(workers) > 1 else [])
    infos = [PodInfo.of(pod) for pod in pods]
    assert [info.requests[traces.GPU] for info in infos] == workers
    assert {info.namespace for info in infos} == {"vc"}
    assert {info.owner_name for info in infos} == {"job-000003"}
    assert {info.pod_group for info in infos} == {"job-000003" if len(workers) > 1 else ""}
    assert {info.annotations[DURATION_ANNOTATION] for info in infos} == {"64s"}


def test_pods_that_request_the_same_share_their_spec() -> None:
    """Nothing is read anew for a pod of a known form; the members of a group are a form each."""
    (item,) = traces.philly_job(0, ["0", "10", "4", "vc"])
    (other,) = traces.philly_job(1, ["5", "20", "4", "vc2"])
    members = [pod for pod in traces.philly_job(2, ["5", "20", "16", "vc"]) if isinstance(pod, Pod)]
    assert isinstance(item, Pod)
    assert isinstance(other, Pod)
    assert item.spec is other.spec
    assert {pod.spec == members[0].spec for pod in members} == {True}
    assert members[0].spec != item.spec


def test_all_bad_cells_of_a_row_are_reported() -> None:
    """By the index of the column."""
    with pytest.raises(traces.BadCellError) as caught:
        list(traces.openb_pod(0, ["", "x", "1", "1", "1001", "", "LS", "Running", "10", "5", ""]))
    assert [column for column, _ in caught.value.problems] == [0, 1, 4, 9]
    assert caught.value.problems[2][1] == "'1001' is not a whole number from 0 to 1000"


def test_pods_of_a_list_without_times_stay() -> None:
    """They have no creation and no duration, and say how many devices they want and how much."""
    (item,) = traces.openb_timeless_pod(0, ["p", "12000", "16384", "2", "1000", "T4|P100"])
    (other,) = traces.openb_timeless_pod(1, ["q", "12000", "16384", "0", "", ""])
    assert isinstance(item, Pod)
    assert isinstance(other, Pod)
    info = PodInfo.of(item)
    assert item.metadata.creation_timestamp is None
    assert info.annotations == {traces.GPU_COUNT: "2", traces.GPU_MILLI: "1000"}
    assert info.requests[traces.GPU_MILLI] == 2000
    assert info.node_affinity is not None
    assert PodInfo.of(other).annotations == {traces.GPU_COUNT: "0", traces.GPU_MILLI: "0"}


NODES, PODS, TIMELESS, JOBS = traces.TABLES


def written(path: Path, *lines: str) -> str:
    """Write a table and return its path."""
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def test_tables_are_known_by_their_header(tmp_path: Path) -> None:
    """Nodes, pods and jobs, packed or not, in the order of the files and rows."""
    loaded = traces.load_traces(
        [
            written(tmp_path / "nodes.csv", NODES, "n,64000,262144,2,P100"),
            written(tmp_path / "pods.csv.gz", PODS, "p,12000,16384,1,1000,,LS,Running,0,90,5"),
            written(tmp_path / "jobs.csv", JOBS, "7,64,16,11cb48"),
        ]
    )
    assert loaded.diagnostics == []
    assert [type(obj) for obj in loaded.objects] == [Node, Pod, PodGroup, Pod, Pod]
    assert [obj.metadata.name for obj in loaded.objects] == [
        "n",
        "p",
        "job-000000",
        "job-000000-0",
        "job-000000-1",
    ]


def test_tables_are_distinguished_from_manifests_by_their_name() -> None:
    """CSV, packed or not."""
    assert traces.is_trace("a/b.csv")
    assert traces.is_trace("b.csv.gz")
    assert not traces.is_trace("b.yaml")


def test_every_mistake_is_reported_with_its_place(tmp_path: Path) -> None:
    """File, line and column of the cell, all of them at once."""
    path = written(
        tmp_path / "jobs.csv",
        JOBS,
        "7,64,16,11cb48",
        "x,64,0,11cb48",
        "7,64,16",
        "7,-1,1,",
    )
    loaded = traces.load_traces([path])
    assert [(d.line, d.column, d.code) for d in loaded.diagnostics] == [
        (3, 1, "PS707"),
        (3, 6, "PS707"),
        (4, 1, "PS703"),
        (5, 3, "PS707"),
        (5, 8, "PS707"),
    ]
    assert loaded.diagnostics[1].render() == (
        f"{path}:3:6: error PS707: num_gpus: '0' is not a whole number from 1 to 100000\n"
        "    3 | x,64,0,11cb48\n"
        "      |      ^"
    )
    assert len(loaded.objects) == 3, "the good rows are read"


def test_unknown_and_unreadable_files_are_reported(tmp_path: Path) -> None:
    """An unknown header; a file of another format."""
    other = written(tmp_path / "other.csv", "a,b", "1,2")
    empty = written(tmp_path / "empty.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"no gzip")
    loaded = traces.load_traces([other, empty, str(broken)])
    assert [d.code for d in loaded.diagnostics] == ["PS706", "PS706", "PS701"]
    assert "submit_s,duration_s,num_gpus,vc" in loaded.diagnostics[0].hint


def test_an_object_is_there_once(tmp_path: Path) -> None:
    """The second one of a name is reported, with the place of the first."""
    path = written(tmp_path / "nodes.csv", NODES, "n,1,1,0,", "m,1,1,0,", "n,2,2,0,")
    loaded = traces.load_traces([path])
    (problem,) = loaded.diagnostics
    assert (problem.line, problem.code) == (4, "PS708")
    assert problem.message == "duplicate Node n"
    assert problem.hint == f"the first one is at {path}:2"


def test_nodes_are_numbered_through() -> None:
    """Each with its amounts, and 110 pod slots unless given."""
    nodes = list(traces.generated_nodes(["2*cpu=4,memory=8Gi", "1*nvidia.com/gpu=8,pods=20"]))
    assert [node.metadata.name for node in nodes] == ["node-0001", "node-0002", "node-0003"]
    assert nodes[0].status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert nodes[2].status.allocatable == {"nvidia.com/gpu": "8", "pods": "20"}
    assert nodes[2].metadata.labels == {"kubernetes.io/hostname": "node-0003"}


@pytest.mark.parametrize("text", ["3", "x*cpu=4", "3*cpu", "3*cpu=", "3*=4", "3*cpu=four", "3*"])
def test_other_texts_are_refused(text: str) -> None:
    """With an example of the format, or the problem of the quantity."""
    with pytest.raises(PolicySchedError, match="--nodes"):
        list(traces.generated_nodes([text]))
