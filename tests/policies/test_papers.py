"""Published results come out of the policy files in policies/papers."""

from __future__ import annotations

import csv
import heapq
import shutil
from itertools import chain
from pathlib import Path

import pytest
import yaml

from policy_sched.cli.main import run
from tests.policies.published import Node, placements

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
    """In all five orders each job of the sample ends at the second at which the walk ends it.

    The sample did not fill the experiment's node: no job waited, and all orders were the same.
    """
    path = PAPERS / "pai" / "experiment.yaml"
    assert run(["sweep", str(path), "--jobs", "1", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "12 of 12 differences from FIFO are more than noise." in printed  # no seed changes them
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


@pytest.mark.parametrize(
    ("paper", "policies"), [("fgd", ("FGD", "BestFit")), ("pwr", ("PWR",))], ids=["fgd", "pwr"]
)
def test_pods_go_where_the_simulators_send_them(
    paper: str, policies: tuple[str, ...], tmp_path: Path
) -> None:
    """For two seeds, each pod of the sample gets the same node and GPUs."""
    shutil.copytree(PAPERS, tmp_path / "papers")
    path = tmp_path / "papers" / paper / "experiment.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    variants = [one for one in document["spec"]["variants"] if one["name"] in policies]
    document["spec"] |= {"variants": variants, "seeds": [42, 43]}
    if paper == "pwr":
        del document["spec"]["computed"]
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    sample = PAPERS / "fgd" / "sample"
    files = {"pods": "pods", "cluster": "nodes", "arrivals": "arrivals", "nodes": "ranks"}
    given = [("--set", f"{name}={sample / file}.csv") for name, file in files.items()]
    results = ["--jobs", "1", "--results", str(tmp_path / "found")]
    assert run(["sweep", str(path), *results, *chain(*given)]) == 0
    nodes, pods = table(sample / "nodes.csv"), table(sample / "pods.csv")
    found = table(tmp_path / "found" / "pods.csv")
    for policy in policies:
        for seed in ("42", "43"):
            order = [int(one[seed]) for one in table(sample / "arrivals.csv") if one[seed]]
            ranks = [int(one[seed]) for one in table(sample / "ranks.csv")]
            rows = [one for one in found if (one["variant"], one["seed"]) == (policy, seed)]
            assert [(one["node"], one["devices"]) for one in rows] == placements(
                policy, nodes, pods, order, ranks
            )
            assert any(one["node"] == "" for one in rows)


def test_random_draws_among_the_nodes_and_gpus_with_room(tmp_path: Path) -> None:
    """Each pod of the sample goes to a node and GPU that fit, if there are any; which ones is drawn
    evenly, again for another seed, and the same for the same one."""
    sample = PAPERS / "fgd" / "sample"
    path = PAPERS / "fgd" / "random-experiment.yaml"
    files = {"pods": "pods", "cluster": "nodes", "arrivals": "arrivals"}
    given = list(chain(*(("--set", f"{name}={sample / file}.csv") for name, file in files.items())))
    for folder in ("one", "other"):
        results = ["--jobs", "1", "--results", str(tmp_path / folder)]
        assert run(["sweep", str(path), *results, *given]) == 0
    texts = [(tmp_path / folder / "pods.csv").read_bytes() for folder in ("one", "other")]
    assert texts[0] == texts[1]
    rows, pods, nodes = (
        table(tmp_path / "one" / "pods.csv"),
        table(sample / "pods.csv"),
        table(sample / "nodes.csv"),
    )
    drawn: list[tuple[int, int]] = []
    drawn_gpus: list[tuple[int, int]] = []
    for seed in map(str, range(42, 52)):
        cluster = {row["sn"]: Node(i, row) for i, row in enumerate(nodes)}
        order = [int(one[seed]) for one in table(sample / "arrivals.csv") if one[seed]]
        placed = [row for row in rows if row["seed"] == seed]
        for number, row in zip(order, placed, strict=True):
            pod = pods[number]
            feasible = [name for name, node in cluster.items() if node.fits(pod)]
            assert bool(row["node"]) == bool(feasible)
            if not feasible:
                continue
            drawn.append((feasible.index(row["node"]), len(feasible)))
            node, gpus = cluster[row["node"]], [int(one) for one in row["devices"].split()]
            fitting = [i for i, g in enumerate(node.gpus) if g >= int(pod["gpu_milli"])]
            if len(gpus) == 1 and int(pod["gpu_milli"]) < 1000:
                drawn_gpus.append((fitting.index(gpus[0]), len(fitting)))
            else:
                assert gpus == fitting[: int(pod["num_gpu"])]
            node.take(pod, gpus)
    for draws in (drawn, drawn_gpus):
        places = [place / (count - 1) for place, count in draws if count > 1]
        assert len(places) > 500
        assert 0.47 < sum(places) / len(places) < 0.53
