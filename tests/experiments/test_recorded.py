"""Experiments on recorded traffic: what runs give, and what else may not be said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.errors import Severity
from policy_sched.experiments import engine_of, read_sweep
from policy_sched.experiments.engine import Order, Work
from policy_sched.experiments.runs import RunResult
from tests.replay.recorded import CONFIG, Load, write
from tests.replay.test_decisions import packing_first

SECONDS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recording and two configurations."""
    folder = tmp_path_factory.mktemp("recorded")
    load = Load(8, 1.0, 9)
    write(load.play(SECONDS), folder / "traffic", load.clock.ns)
    for name, config in (("then", CONFIG), ("packs", packing_first())):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return folder


def experiment(folder: Path, workload: dict[str, Any], **spec: Any) -> str:
    """Write an experiment; return its path."""
    document = {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "recorded"},
        "spec": {
            "workload": workload,
            "variants": [{"name": name, "config": f"{name}.yaml"} for name in ("then", "packs")],
            "seeds": {"count": 2},
            "measures": [
                {"name": "placed", "pods": "Placed"},
                {"name": "cpu", "allocation": "cpu", "summary": "Mean"},
                {"name": "waiting", "time": "Waiting"},
            ],
            "record": ["Pods"],
            **spec,
        },
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_runs_decide_recorded_traffic_again(folder: Path) -> None:
    """The policies of then do what they did; others do something else, with every seed alike."""
    sweep, problems = read_sweep(experiment(folder, {"recording": "traffic"}))
    assert sweep is not None, problems
    assert sweep.inputs.traffic is not None
    lives = sweep.inputs.traffic.lives
    then = {life.key: life.node for life in lives.values() if life.waited}
    work = Work(sweep.inputs, sweep.spec, sweep.variants)
    orders = [Order(task.number, task.variant, task.seed) for task in sweep.tasks]
    results = dict(engine_of(None, 1, print)(work, orders))
    for order, result in results.items():
        assert isinstance(result, RunResult), result
        nodes = {pod["pod"]: pod["node"] for pod in result.pods}
        assert (nodes == then) is (order.variant == "then")
        assert result.values["placed"] == sum(map(bool, nodes.values()))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"cluster": {"generate": ["2*cpu=1"]}}, "generate"),
        ({"workload": {"recording": "traffic", "retry": "AtOnce"}}, "retry"),
        ({"workload": {"recording": "traffic", "files": ["pods.yaml"]}}, "files"),
        ({"tieBreak": {"order": "Given"}}, "order"),
    ],
)
def test_nothing_else_says_what_a_recording_says(
    folder: Path, spec: dict[str, Any], path: str
) -> None:
    """Cluster, pods, times and ties are those of the recording."""
    given = {"workload": {"recording": "traffic"}, **spec}
    sweep, problems = read_sweep(experiment(folder, given.pop("workload"), **given))
    assert sweep is None
    (problem,) = problems
    assert problem.message.endswith("a recording has its own cluster, pods, times and nodes")
    line = (folder / "experiment.yaml").read_text().splitlines()[problem.line - 1]
    assert path in line


def test_a_folder_that_is_no_recording_is_told(folder: Path) -> None:
    """At the place that names it."""
    sweep, problems = read_sweep(experiment(folder, {"recording": "."}))
    assert sweep is None
    assert "there is no segment with a snapshot" in problems[0].message
    sweep, problems = read_sweep(experiment(folder, {"recording": "missing"}))
    assert sweep is None
    assert "missing: " in problems[0].message
    sweep, problems = read_sweep(experiment(folder, {"recording": "then.yaml"}))
    assert sweep is None
    assert "then.yaml: Not a directory" in problems[0].message


def test_a_recording_that_is_cut_is_a_warning(folder: Path) -> None:
    """Runs go as far as it does, and a result of half a day is not one of the day."""
    cut = folder / "cut"
    shutil.copytree(folder / "traffic", cut)
    segment = cut / "000001.jsonl.gz"
    segment.write_bytes(segment.read_bytes()[:-100])
    sweep, (problem,) = read_sweep(experiment(folder, {"recording": "cut"}))
    assert sweep is not None
    assert problem.severity is Severity.WARNING
    assert "000001.jsonl.gz: it is cut off" in problem.message
