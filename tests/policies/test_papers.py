"""Published results come out of the policy files in policies/papers."""

from __future__ import annotations

import csv
import heapq
from pathlib import Path

import pytest

from policy_sched.cli.main import run

PAPERS = Path(__file__).parents[2] / "policies" / "papers"
ORDERS = {
    "FIFO": "submit_s",
    "SJF": "duration_s",
    "SJU": "user_dur",
    "SJG": "group_dur",
    "SJGG": "group_gpu_dur",
}
Job = dict[str, float]


def table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def walked(jobs: list[Job], key: str, gpus: int, cpus: int) -> dict[int, int]:
    """Return when each job ends by the protocol of the PAI simulator: release, queue, walk."""
    ends: list[tuple[float, int, Job]] = []
    coming, queue, ended = list(jobs), list[Job](), dict[int, int]()
    while coming or ends:
        now = min([one["submit_s"] for one in coming[:1]] + [end for end, _, _ in ends[:1]])
        while ends and ends[0][0] == now:
            _, _, job = heapq.heappop(ends)
            gpus, cpus = gpus + int(job["gpu_centi"]), cpus + int(job["cpu_centi"])
        while coming and coming[0]["submit_s"] == now:
            queue.append(coming.pop(0))
        left = []
        for job in sorted(queue, key=lambda one: (one[key], one["job_id"])):
            if job["gpu_centi"] > gpus or job["cpu_centi"] > cpus:
                left.append(job)
                continue
            gpus, cpus = gpus - int(job["gpu_centi"]), cpus - int(job["cpu_centi"])
            number = int(job["job_id"])
            ended[number] = int(now + job["duration_s"])
            heapq.heappush(ends, (ended[number], number, job))
        queue = left
    return ended


def test_jobs_of_pai_end_when_its_protocol_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In all five orders each job of the sample ends at the second at which the walk ends it."""
    path = PAPERS / "pai" / "experiment.yaml"
    node = ["--set", "gpus=6400", "--set", "cpus=768"]
    assert run(["sweep", str(path), "--jobs", "1", "--results", str(tmp_path), *node]) == 0
    assert "SJGG" in capsys.readouterr().out
    rows = table(PAPERS / "pai" / "sample.csv")
    jobs = [{name: float(cell) for name, cell in row.items() if name != "user"} for row in rows]
    found = table(tmp_path / "pods.csv")
    for policy, key in ORDERS.items():
        ends = {
            int(row["pod"].rpartition("-")[2]): int(float(row["ended"]))
            for row in found
            if row["variant"] == policy
        }
        assert ends == walked(jobs, key, 6400, 76800)
    waits = {row["variant"] for row in found if float(row["bound"]) > float(row["created"])}
    assert waits == set(ORDERS)
