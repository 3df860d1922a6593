"""What rows of traces mean."""

from __future__ import annotations

import pytest

from policy_sched.model.duration import DURATION_ANNOTATION
from policy_sched.model.node import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import PodGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import required_matches
from policy_sched.simulate.trace_rows import (
    EPOCH,
    GPU,
    GPU_MILLI,
    GPU_MODEL,
    BadCellError,
    openb_node,
    openb_pod,
    philly_job,
)


def info_of(row: str) -> PodInfo:
    """Return the pod of a row of OpenB."""
    (pod,) = openb_pod(0, row.split(","))
    assert isinstance(pod, Pod)
    return PodInfo.of(pod)


def test_a_node_of_openb_gives_gpus_in_thousandths() -> None:
    """With 1001 slots for pods and the model as a label; a node without GPUs has neither."""
    (node,) = openb_node(0, ["n", "64000", "262144", "2", "P100"])
    assert isinstance(node, Node)
    assert node.status.allocatable == {
        "cpu": "64000m",
        "memory": "262144Mi",
        "pods": "1001",
        GPU_MILLI: "2000",
    }
    assert node.metadata.labels[GPU_MODEL] == "P100"
    (plain,) = openb_node(0, ["n", "64000", "262144", "0", ""])
    assert isinstance(plain, Node)
    assert GPU_MILLI not in plain.status.allocatable
    assert GPU_MODEL not in plain.metadata.labels


def test_a_pod_of_openb_runs_from_its_scheduled_time_to_its_deletion() -> None:
    """Or from its creation, if it never was scheduled."""
    ran = info_of("p,12000,16384,2,1000,,LS,Running,10,100,25")
    assert ran.annotations[DURATION_ANNOTATION] == "75s"
    assert ran.creation_time == round((EPOCH.timestamp() + 10) * 1e9)
    assert ran.requests == {"cpu": 12000, "memory": 16384 << 20, GPU_MILLI: 2000}
    assert ran.labels == {"qos": "LS"}
    waited = info_of("p,12000,16384,0,0,,BE,Pending,10,100,")
    assert waited.annotations[DURATION_ANNOTATION] == "90s"
    assert GPU_MILLI not in waited.requests


def test_a_pod_of_openb_may_need_certain_models() -> None:
    """Any of those that are named."""
    pod = info_of("p,1,1,1,460,T4|V100M16,LS,Running,0,1,0")
    assert pod.requests[GPU_MILLI] == 460
    for model, fits in (("T4", True), ("V100M16", True), ("P100", False)):
        assert required_matches(pod.node_affinity, {GPU_MODEL: model}, "n") is fits


@pytest.mark.parametrize(
    ("gpus", "workers"), [(1, [1]), (8, [8]), (12, [6, 6]), (16, [8, 8]), (24, [8, 8, 8])]
)
def test_a_job_of_philly_has_workers_of_up_to_eight_gpus(gpus: int, workers: list[int]) -> None:
    """Evenly, of one owner; several of them are one pod group in the virtual cluster."""
    objects = list(philly_job(3, ["5", "64", str(gpus), "vc"]))
    pods = [one for one in objects if isinstance(one, Pod)]
    groups = [one.min_count for one in objects if isinstance(one, PodGroup)]
    assert groups == ([len(workers)] if len(workers) > 1 else [])
    infos = [PodInfo.of(pod) for pod in pods]
    assert [info.requests[GPU] for info in infos] == workers
    assert {info.namespace for info in infos} == {"vc"}
    assert {info.owner_name for info in infos} == {"job-000003"}
    assert {info.pod_group for info in infos} == {"job-000003" if len(workers) > 1 else ""}
    assert {info.annotations[DURATION_ANNOTATION] for info in infos} == {"64s"}


def test_all_bad_cells_of_a_row_are_told() -> None:
    """By the index of the column."""
    with pytest.raises(BadCellError) as caught:
        list(openb_pod(0, ["", "x", "1", "1", "1001", "", "LS", "Running", "10", "5", ""]))
    assert [column for column, _ in caught.value.problems] == [0, 1, 4, 9]
    assert caught.value.problems[2][1] == "'1001' is not a whole number from 0 to 1000"
