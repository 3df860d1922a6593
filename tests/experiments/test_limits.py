"""Limits of experiments: each is told at its place before anything is made of it."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.cli.main import run
from policy_sched.experiments import read_sweep, stored_report
from policy_sched.experiments.measures import Series
from policy_sched.experiments.reading import MAX_PODS, MAX_TEXT
from tests.experiments.examples import tiny

AXES = [{"param": f"NodeResourcesFit.a{i}", "values": list(range(100))} for i in range(6)]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "late", "creationTimestamp": "2036-01-01T00:00:00Z"},
    "spec": {"containers": [{"name": "c"}]},
}
DOUBLING = {"p0": "xxxxxxxx", **{f"p{i}": f"${{p{i - 1}}}${{p{i - 1}}}" for i in range(1, 60)}}

TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "60 parameters that double": (
        {"parameters": DOUBLING},
        f"spec.parameters.p16: parameters make texts of more than {MAX_TEXT:,} characters",
    ),
    "a million nodes": (
        {"cluster.generate": ["999999*cpu=8", "1*cpu=8"]},
        "spec.cluster.generate: 1,000,000 nodes are more than 100,000",
    ),
    "axes": ({"matrix": AXES}, "spec.matrix: 2,000,000,000,000 variants are more than 1,000"),
    "seeds": (
        {"seeds": {"count": 60_000}},
        "spec.seeds: 120,000 runs are more than 100,000: 2 variants with each seed",
    ),
    "inflation": (
        {"workload.arrivals": {"inflate": {"resource": "memory", "percent": 100_000}}},
        "spec.workload.arrivals.inflate.percent: some 53,687,0",
    ),
    "distances": (
        {"workload.arrivals": {"every": "87600h"}},
        "spec.workload.arrivals.every: 54750d00h of virtual time are more than 1157d09h",
    ),
    "an end": (
        {"workload.arrivals": {"every": "1h"}, "stop": {"after": "87600h"}},
        "",
    ),
    "points": (
        {"workload.arrivals": {"every": "24h"}, "curve": {"time": True, "step": 0.001}},
        "spec.curve.step: 360,000 points are more than 100,000",
    ),
}


def small(folder: Path, changes: dict[str, Any]) -> str:
    """Write the tiny experiment with changes; its pods request little memory."""
    file = tiny(folder, changes)
    document = yaml.safe_load(Path(file).read_text("utf-8"))
    container = document["spec"]["workload"]["rows"]["pod"]["spec"]["containers"][0]
    container["resources"]["requests"]["memory"] = "2560"
    Path(file).write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    return file


@pytest.mark.parametrize(("changes", "message"), list(TOO_MUCH.values()), ids=TOO_MUCH)
def test_an_experiment_that_is_too_large_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Parameters that double, a million nodes or ten idle years took all memory, or all time."""
    file = small(tmp_path, changes)
    tracemalloc.start()
    sweep, problems = read_sweep(file)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 << 20
    if not message:
        assert sweep is not None
        return
    assert sweep is None
    assert [problem.message[: len(message)] for problem in problems] == [message]


def test_pods_that_arrive_years_apart_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten idle years in a timeline were a million attempts of each pod that waits."""
    first = {**POD, "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    pods = {"apiVersion": "v1", "kind": "List", "items": [node, first, POD]}
    (tmp_path / "pods.json").write_text(json.dumps(pods), "utf-8")
    message = "3652d00h of virtual time are more than 1157d09h"
    changes = {"workload": {"files": ["pods.json"]}, "curve": None}
    items = {"apiVersion": "v1", "kind": "List", "items": [first, POD]}
    (tmp_path / "x").mkdir()
    (tmp_path / "x/pods.json").write_text(json.dumps(items), "utf-8")
    file = tiny(tmp_path / "x", changes)
    (problem,) = read_sweep(file)[1]
    assert problem.message.startswith(f"spec.workload: {message}")
    assert run(["simulate", str(tmp_path / "pods.json"), "--timeline"]) != 0
    assert message in capsys.readouterr().err
    assert run(["simulate", str(tmp_path / "pods.json"), "--timeline", "--until", "1h"]) == 0


def test_points_of_a_curve_have_a_limit(tmp_path: Path) -> None:
    """A run that lasts longer than its arrivals say fails with its number of points."""
    with pytest.raises(Exception, match=r"1,000,001 points of a curve are more than 100,000"):
        Series.of(["a"]).by_time(0, 1_000_001, 1, "Mean")
    assert tmp_path.is_dir()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("submit_s,duration_s,num_gpus,vc\n0,1,2147483648,a\n", "from 1 to 100000"),
        ("submit_s,duration_s,num_gpus,vc\n" + "0,1,100000,a\n" * 41, "more than 500,000 objects"),
    ],
)
def test_tables_make_a_bounded_number_of_pods(
    tmp_path: Path, rows: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job of 2^31 GPUs in a table made as many pods as fit into memory."""
    (tmp_path / "jobs.csv").write_text(rows, "utf-8")
    assert run(["simulate", str(tmp_path / "jobs.csv")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("1,2\n" + "0,0\n" * (MAX_PODS + 1), "column 1: 500,001 rows are more than 500,000"),
        ("1,2\n" + "0" * 200_000 + ",0\n", "this is no CSV: field larger than field limit"),
        ("1,2\n" + "9" * 5000 + ",0\n", "is not a whole number below 16"),
    ],
    ids=["rows", "cell", "digits"],
)
def test_tables_of_orders_have_limits(tmp_path: Path, table: str, message: str) -> None:
    """A cell of 200,000 characters was a traceback, and there was no end of rows."""
    file = tiny(tmp_path, {"workload.arrivals": {"file": "orders.csv"}})
    (tmp_path / "orders.csv").write_text(table, "utf-8")
    assert any(message in item.message for item in read_sweep(file)[1])


BROKEN = {
    "a list": "[]",
    "values of another kind": '{"values": {"cpu": [1]}, "curve": {}, "pods": []}',
    "columns of other lengths": '{"values": {}, "curve": {"x": [1, 2], "cpu": [1]}, "pods": []}',
    "no columns": '{"values": {"cpu": 1}, "curve": {}, "pods": []}',
    "cells that are lists": '{"values": {}, "curve": {}, "pods": [{"a": []}]}',
    "deep": "[" * 100_000,
    "not UTF-8": "\udcff",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the tiny experiment."""
    folder = tmp_path_factory.mktemp("limits")
    assert run(["sweep", tiny(folder), "-j", "1", "--results", str(folder / "results")]) == 0
    return folder / "results"


@pytest.mark.parametrize("text", list(BROKEN.values()), ids=BROKEN)
def test_a_result_of_another_shape_is_made_again(results: Path, text: str) -> None:
    """A file that sweep has not written so was a traceback in `sweep` and in the console."""
    file = sorted((results / "runs").iterdir())[1]
    before = file.read_bytes()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    ((_, why),) = stored_report(results).failures
    assert why == "its file is not there, or broken"
    again = ["sweep", str(results.parent / "experiment.yaml"), "-j", "1"]
    assert run([*again, "--results", str(results)]) == 0
    assert file.read_bytes() == before


def test_results_are_regular_files_of_limited_size(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named pipe among the results was read for ever, a huge file until memory was full."""
    first, other = sorted((results / "runs").iterdir())[:2]
    kept = first.read_bytes(), other.read_bytes()
    first.unlink()
    os.mkfifo(first)
    os.truncate(other, 1 << 32)
    assert len(stored_report(results).failures) >= 2
    for path, data in zip((first, other), kept, strict=True):
        path.unlink()
        path.write_bytes(data)
    assert stored_report(results).failures == []
    monkeypatch.setattr("policy_sched.experiments.report.MAX_BYTES", len(kept[0]) - 1)
    whys = {why for _, why in stored_report(results).failures}
    assert whys == {"the results before it have more than 512 MiB"}


def test_thousands_of_unknown_parameters_are_told(tmp_path: Path) -> None:
    """Each problem was looked for in the name of each parameter, with a pattern of its own: 2,000
    parameters took minutes."""
    unknown = {f"k{number}": {"a": number} for number in range(2_000)}
    problems = read_sweep(tiny(tmp_path, {"base": {"params": unknown}}))[1]
    (message,) = (item.message for item in problems if "more than 200" in item.message)
    assert message == "spec.base: params and weights of 2,000 plugins are more than 200"


def test_many_seeds_are_compared_once(tmp_path: Path) -> None:
    """Each of 49,000 seeds was looked for in a list of those before it, which took 40 s."""
    file = tiny(tmp_path, {"seeds": [*range(20_000), 7], "variants": [{"name": "a"}]})
    (problem,) = read_sweep(file)[1]
    assert problem.message == "spec.seeds[20000]: Duplicate value: 7"


def test_cells_make_a_bounded_text(tmp_path: Path) -> None:
    """A cell that a pod of a row names many times took all memory."""
    texts = {"workload.rows.pod.metadata.annotations": {"a": "${row.text}" * 700}}
    pods = f"name,cpu,text\na,1,\nb,1,{'x' * 100_000}\n"
    tracemalloc.start()
    (problem,) = read_sweep(tiny(tmp_path, {**texts, "workload.arrivals": None}, pods))[1]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    message = "row 2 of pods.csv: cells make more than 67,108,864 characters"
    assert problem.message == f"spec.workload.rows.pod: {message}"
    assert most < 64 << 20


def test_a_cell_is_a_text_whatever_it_says(tmp_path: Path) -> None:
    """Cells that look like other cells became these, or not, by the order of a set."""
    pods = "name,cpu,text\na,1,${row.name}\n"
    file = tiny(tmp_path, {"workload.rows.pod.metadata.annotations": {"a": "${row.text}"}}, pods)
    sweep, problems = read_sweep(file)
    assert problems == []
    assert sweep is not None
    (pod,) = sweep.inputs.pods
    assert pod.metadata.annotations["a"] == "${row.name}"
