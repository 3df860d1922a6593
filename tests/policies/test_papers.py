"""Published results come out of the policy files in policies/papers."""

from __future__ import annotations

import csv
import gzip
import heapq
import shutil
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.cli.main import run
from tests.policies import published
from tests.policies.samples import PAPERS, samples

ROOT = PAPERS.parents[1]
SAMPLE = PAPERS / "openb" / "sample"
ORDERS = {
    "FIFO": "submit_s",
    "SJF": "duration_s",
    "SJU": "user_dur",
    "SJG": "group_dur",
    "SJGG": "group_gpu_dur",
}
Job = dict[str, float]


def table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, plain or with .gz."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def changed(folder: Path, paper: str, policies: tuple[str, ...], spec: dict[str, Any]) -> Path:
    """Return the experiment of a paper in a copy of all, with some variants and other fields."""
    shutil.copytree(PAPERS, folder / "papers")
    path = folder / "papers" / paper / "experiment.yaml"
    document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    variants = [one for one in document["spec"]["variants"] if one["name"] in policies]
    document["spec"] |= {"variants": variants, **spec}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def sweep(path: Path, folder: Path, **parameters: Path | int) -> list[dict[str, str]]:
    """Run an experiment in this process with parameters; return its table of pods."""
    given = chain(*(("--set", f"{name}={value}") for name, value in parameters.items()))
    assert run(["sweep", str(path), "--jobs", "1", "--results", str(folder), *given]) == 0
    return table(folder / "pods.csv")


def test_the_samples_are_those_of_their_command() -> None:
    """`python -m tests.policies.samples` writes what is there, and nothing else is there."""
    for path, content in samples().items():
        assert path.read_text(encoding="utf-8") == content
    assert {path for path in samples() if path.parent == SAMPLE} == set(SAMPLE.iterdir())


def test_no_published_list_is_in_the_repository() -> None:
    """The wheel had a megabyte of OpenB's and of a Philly list's rows: it holds policies, schemas,
    docs and the package, whose tables are the samples and the orders that were derived here."""
    suffixes = (".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz")
    shipped = ("policies", "schemas", "docs", "policy_sched")
    tables = {
        path
        for folder in shipped
        for path in (ROOT / folder).rglob("*")
        if path.name.endswith(suffixes)
    }
    derived = {"arrivals_default.csv.gz", "node_order_default.csv.gz"}
    assert tables == {*samples(), *(PAPERS / "openb" / name for name in derived)}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    wheel = wheel["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *wheel["force-include"]} == set(shipped)


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
    found = sweep(PAPERS / "pai" / "experiment.yaml", tmp_path)
    printed = capsys.readouterr().out
    assert "12 of 12 differences from FIFO are more than noise." in printed  # no seed changes them
    rows = table(PAPERS / "pai" / "sample.csv")
    jobs = [{name: float(cell) for name, cell in row.items() if name != "user"} for row in rows]
    for policy, key in ORDERS.items():
        ends = {
            int(row["pod"].rpartition("-")[2]): int(float(row["ended"]))
            for row in found
            if row["variant"] == policy
        }
        assert ends == walked(jobs, key, 6400, 76800)
    readme = (PAPERS / "pai" / "README.md").read_text(encoding="utf-8")
    means = mean_of(tmp_path, "completion")
    assert all(f"| `{policy}` | {means[policy]:.2f} |\n" in readme for policy in ORDERS)
    waits = {row["variant"] for row in found if float(row["bound"]) > float(row["created"])}
    assert waits == set(ORDERS)


def mean_of(folder: Path, measure: str) -> dict[str, float]:
    """Return the mean of a measure by variant, of results in a folder."""
    rows = table(folder / "summary.csv")
    return {row["variant"]: float(row["mean"]) for row in rows if row["measure"] == measure}


def test_the_readme_of_fgd_has_the_figures_of_the_sample(tmp_path: Path) -> None:
    """What the first command prints is what the table says: FGD allocates most."""
    assert (
        run(
            [
                "sweep",
                str(PAPERS / "fgd" / "experiment.yaml"),
                "-j",
                "1",
                "--results",
                str(tmp_path),
            ]
        )
        == 0
    )
    readme = (PAPERS / "fgd" / "README.md").read_text(encoding="utf-8")
    allocation, fragments, unplaced = (
        mean_of(tmp_path, name) for name in ("allocation", "fragment_amount", "unplaced")
    )
    assert max(allocation, key=lambda name: allocation[name]) == "FGD"
    for name, percent in allocation.items():
        cells = f"{percent:.2f} | {fragments[name]:.2f} | {unplaced[name]:.1f}"
        assert f"| `{name}` | {cells} |\n" in readme


@pytest.mark.parametrize(
    ("paper", "policies"), [("fgd", ("FGD", "BestFit")), ("pwr", ("PWR",))], ids=["fgd", "pwr"]
)
def test_pods_go_where_the_simulators_send_them(
    paper: str, policies: tuple[str, ...], tmp_path: Path
) -> None:
    """For two seeds, each pod of the sample gets the same node and GPUs."""
    spec = {"seeds": [42, 43]} | ({"computed": []} if paper == "pwr" else {})
    found = sweep(changed(tmp_path, paper, policies, spec), tmp_path / "found")
    nodes, pods = table(SAMPLE / "nodes.csv"), table(SAMPLE / "pods.csv")
    for policy in policies:
        for seed in ("42", "43"):
            order = [int(one[seed]) for one in table(SAMPLE / "arrivals.csv") if one[seed]]
            ranks = [int(one[seed]) for one in table(SAMPLE / "node_order.csv")]
            rows = [one for one in found if (one["variant"], one["seed"]) == (policy, seed)]
            assert [(one["node"], one["devices"]) for one in rows] == published.placements(
                policy, nodes, pods, order, ranks
            )
            assert any(one["node"] == "" for one in rows)


def test_random_draws_among_the_nodes_and_gpus_with_room(tmp_path: Path) -> None:
    """Each pod of the sample goes to a node and GPU that fit, if there are any; which ones is drawn
    evenly, again for another seed, and the same for the same one."""
    path = PAPERS / "fgd" / "random-experiment.yaml"
    rows = sweep(path, tmp_path / "first")
    sweep(path, tmp_path / "second")
    texts = [(tmp_path / folder / "pods.csv").read_bytes() for folder in ("first", "second")]
    assert texts[0] == texts[1]
    pods, nodes = table(SAMPLE / "pods.csv"), table(SAMPLE / "nodes.csv")
    drawn: list[tuple[int, int]] = []
    drawn_gpus: list[tuple[int, int]] = []
    for seed in map(str, range(42, 52)):
        cluster = {row["sn"]: published.Node(i, row) for i, row in enumerate(nodes)}
        order = [int(one[seed]) for one in table(SAMPLE / "arrivals.csv") if one[seed]]
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


def test_an_empty_share_of_a_list_is_0(tmp_path: Path) -> None:
    """Pods without GPUs have an empty gpu_milli in some published lists, which were refused:
    "expected an integer, found a string"."""
    path = changed(tmp_path, "fgd", ("FGD",), {"seeds": [42]})
    lines = (SAMPLE / "pods.csv").read_text(encoding="utf-8").replace(",0,0,", ",0,,")
    (tmp_path / "pods.csv").write_text(lines, encoding="utf-8")
    written = sweep(path, tmp_path / "written")
    assert sweep(path, tmp_path / "empty", pods=tmp_path / "pods.csv") == written


@published.needs_published_lists
def test_fgd_places_the_published_pods_as_the_published_simulator_does(tmp_path: Path) -> None:
    """With OpenB's lists and seed 42 each of the 10,866 pods gets the node and GPUs of a replay."""
    spec = {"measures": [{"name": "unplaced", "pods": "Unplaced"}], "figures": []}
    path = changed(tmp_path, "fgd", ("FGD",), spec)
    orders = PAPERS / "openb"
    found = sweep(
        path,
        tmp_path / "found",
        pods=published.TRACES / "openb_pods.csv.gz",
        cluster=published.TRACES / "openb_nodes.csv.gz",
        arrivals=orders / "arrivals_default.csv.gz",
        nodes=orders / "node_order_default.csv.gz",
        count=1,
    )
    replayed = table(published.TRACES / "results" / "derived_placements_default_seed42.csv.gz")
    assert len(found) == 10_866
    for ours, theirs in zip(found, replayed, strict=True):
        node, _, devices = theirs["FGD"].partition(":")
        expected = ("", "") if node == "-" else (f"openb-node-{int(node):04}", devices)
        assert (ours["node"], ours["devices"].replace(" ", "-")) == expected


@published.needs_published_lists
def test_a_stand_in_for_the_pai_trace_ends_as_in_the_published_simulator(tmp_path: Path) -> None:
    """Each of 5,000 jobs on 1,000 GPUs takes as many seconds as there, the shortest first."""
    spec = {"seeds": [0], "figures": []}
    jobs = published.TRACES / "pai" / "reference_jobs_jct.csv.gz"
    path = changed(tmp_path, "pai", ("SJF",), spec)
    found = sweep(path, tmp_path / "found", trace=jobs, gpus=100_000, cpus=23_220)
    completions = {row["pod"]: float(row["ended"]) - float(row["created"]) for row in found}
    expected = {f"default/job-{row['job_id']}": float(row["jct_SJF"]) for row in table(jobs)}
    assert completions == expected
