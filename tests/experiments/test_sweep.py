"""Runs of an experiment: what they give, what is run again, and what is the same bytes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from policy_sched.cli.main import run
from policy_sched.experiments import ResultStore, Sweep, engine_of, read_sweep, run_tasks, tables
from policy_sched.experiments.measures import Series
from tests.experiments.examples import tiny


def prepared(folder: Path, changes: dict[str, Any] | None = None) -> Sweep:
    """Return the tiny experiment with changes."""
    sweep, problems = read_sweep(tiny(folder, changes))
    assert sweep is not None, [problem.render() for problem in problems]
    return sweep


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    """Return the rows of a written table."""
    with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sweep_in(folder: Path, file: str, *options: str) -> int:
    """Run the verb with results in a folder."""
    return run(["sweep", file, "-j", "1", "--results", str(folder), *options])


def test_each_run_has_its_values(tmp_path: Path) -> None:
    """The tables have a row for each variant and seed, and what was measured."""
    assert sweep_in(tmp_path / "r", tiny(tmp_path)) == 0
    records = rows(tmp_path / "r", "runs")
    assert [(row["variant"], row["seed"]) for row in records] == [
        ("spread", "1"), ("spread", "2"), ("packed", "1"), ("packed", "2"),
    ]  # fmt: skip
    # 44 cores are asked for, and there are 32: packing leaves less of them unused
    assert all(float(row["cpu"]) <= 100 for row in records)
    summary = {
        (row["variant"], row["measure"]): float(row["mean"])
        for row in rows(tmp_path / "r", "summary")
    }
    assert summary["packed", "cpu"] >= summary["spread", "cpu"]
    assert {row["verdict"] for row in rows(tmp_path / "r", "comparison")} <= {
        "equal", "noise", "too few seeds", "different",
    }  # fmt: skip
    assert [row["x"] for row in rows(tmp_path / "r", "curves")][:5] == [
        "0.0",
        "4.0",
        "8.0",
        "12.0",
        "16.0",
    ]


def test_a_second_call_runs_nothing(tmp_path: Path) -> None:
    """Results are found by what goes into them; a changed variant alone is run again."""
    sweep = prepared(tmp_path)
    store, serial = ResultStore(tmp_path / "r"), engine_of(None, 1, print)
    assert run_tasks(sweep, sweep.tasks, store, serial).reused == 0
    assert run_tasks(sweep, sweep.tasks, store, serial).reused == 4
    changed = prepared(
        tmp_path,
        {"variants": [{"name": "renamed"}, {"name": "packed", "weights": {"ImageLocality": 3}}]},
    )
    assert run_tasks(changed, changed.tasks, store, serial).reused == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [3, 4]},
        {"cluster.generate": ["5*cpu=8,memory=32Gi"]},
        {"measures": [{"name": "cpu", "pods": "Placed"}]},
        {"tieBreak": {"order": "Given"}},
    ],
    ids=str,
)
def test_whatever_goes_in_makes_another_key(changes: dict[str, Any], tmp_path: Path) -> None:
    """Other seeds, nodes, measures or ties are other runs."""
    keys = {task.key for task in prepared(tmp_path).tasks}
    assert keys.isdisjoint(task.key for task in prepared(tmp_path, changes).tasks)


def test_what_is_for_people_is_in_no_key(tmp_path: Path) -> None:
    """A unit or a name of a variant changes no result."""
    keys = [task.key for task in prepared(tmp_path).tasks]
    changes: dict[str, Any] = {
        "measures": [
            {"name": "cpu", "allocation": "cpu", "unit": "% of cores"},
            {"name": "unplaced", "pods": "Unplaced"},
        ]
    }
    assert [task.key for task in prepared(tmp_path, changes).tasks] == keys


def test_a_file_of_arrivals_is_a_workload(tmp_path: Path) -> None:
    """Pods arrive as the table says, a column for each seed; one may arrive twice."""
    (tmp_path / "order.csv").write_text("position,1,2\n0,3,0\n1,3,1\n2,,2\n", encoding="utf-8")
    file = tiny(tmp_path, {"workload.arrivals": {"file": "order.csv"}, "record": ["Pods"]})
    assert sweep_in(tmp_path / "r", file) == 0
    items = [(row["seed"], row["pod"]) for row in rows(tmp_path / "r", "pods")]
    assert items[:5] == [
        ("1", "default/p3"), ("1", "default/p3-2"),
        ("2", "default/p0"), ("2", "default/p1"), ("2", "default/p2"),
    ]  # fmt: skip


def test_a_measure_may_be_rounded_at_each_event(tmp_path: Path) -> None:
    """A point of the curve is then the mean of rounded values, as of a simulator's log."""
    measures = [
        {"name": "cpu", "allocation": "cpu"},
        {"name": "rounded", "allocation": "cpu", "decimals": 0},
    ]
    curve = {"pods": True, "step": 1}
    changes = {"measures": measures, "curve": curve, "seeds": [1]}
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    points = [(float(row["cpu"]), row["rounded"]) for row in rows(tmp_path / "r", "curves")]
    assert [text for _, text in points] == [str(round(exact, 0)) for exact, _ in points]
    assert any(exact != round(exact) for exact, _ in points)


def test_the_points_of_a_curve_may_be_rounded(tmp_path: Path) -> None:
    """A point is NumPy's mean of its events, and NumPy rounds it: halves go to the even digit."""
    measures = [
        {"name": "exact", "allocation": "cpu"},
        {"name": "rounded", "allocation": "cpu", "pointDecimals": 1},
    ]
    curve = {"pods": True, "step": 4}
    changes = {"measures": measures, "curve": curve, "seeds": [1]}
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    points = [(row["exact"], row["rounded"]) for row in rows(tmp_path / "r", "curves")]
    assert [text for _, text in points] == [
        str(float(np.round(np.float64(exact), 1))) for exact, _ in points
    ]
    assert any(exact != text for exact, text in points)
    assert rows(tmp_path / "r", "runs")[0]["rounded"] == rows(tmp_path / "r", "runs")[0]["exact"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10_000)), min_size=1, max_size=300))
def test_a_point_is_the_mean_of_its_events(events: list[tuple[int, int]]) -> None:
    """Each point is NumPy's mean of the events that are nearest to it, to the last bit."""
    series, x = Series.of(["v"]), 0
    expected: dict[float, list[float]] = {}
    for step, hundredths in events:
        x += step
        series.note(-1, x, iter([hundredths / 100]))
        expected.setdefault(float(round(x / 8) * 8), []).append(hundredths / 100)
    ranks = series.by_points(8, "Mean")
    assert dict(zip(ranks["x"], ranks["v"], strict=True)) == {
        point: float(np.mean(values)) for point, values in expected.items()
    }
    last = series.by_points(8, "Last")
    assert last["v"] == [values[-1] for values in expected.values()]


def test_ties_go_to_the_first_node_of_an_order(tmp_path: Path) -> None:
    """With a file of ranks the lowest rank wins among equal nodes."""
    (tmp_path / "ranks.csv").write_text("rank,1,2\n0,3,2\n1,0,1\n2,1,0\n3,2,3\n", encoding="utf-8")
    changes = {"tieBreak": {"order": "Given", "file": "ranks.csv"}, "record": ["Pods"]}
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    first = [row["node"] for row in rows(tmp_path / "r", "pods") if row["position"] == "0"]
    assert first == ["node-0004", "node-0003", "node-0004", "node-0003"]


def test_pods_are_drawn_until_the_workload_is_large_enough(tmp_path: Path) -> None:
    """Inflation stops before the requests pass the percentage."""
    changes = {
        "workload.arrivals": {"inflate": {"resource": "cpu", "percent": 200}},
        "curve": {"arrived": "cpu"},
    }
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    ends = [float(row["x"]) for row in rows(tmp_path / "r", "curves") if row["seed"] == "1"]
    assert 180 < max(ends) <= 200


def test_virtual_time_has_waiting_times_and_integrals(tmp_path: Path) -> None:
    """Pods with times and durations are simulated: they wait, leave, and use energy."""
    changes: dict[str, Any] = {
        "workload.rows.duration": "seconds",
        "workload.arrivals": {"every": "10s"},
        "curve": {"time": True, "step": 0.01},
        "measures": [
            {"name": "waiting", "time": "Waiting", "summary": "P90"},
            {"name": "completion", "time": "Completion"},
            {"name": "makespan", "time": "Makespan"},
            {"name": "running", "pods": "Running", "summary": "Integral"},
            {
                "name": "cores",
                "nodes": 'node.requested["cpu"].asApproximateFloat()',
                "summary": "Max",
            },
        ],
    }
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    records = rows(tmp_path / "r", "runs")[0]
    # every pod ran for its seconds: 60 + 61 + ... + 75
    assert float(records["running"]) == pytest.approx(sum(range(60, 76)))
    assert float(records["cores"]) <= 32
    assert float(records["makespan"]) >= 150
    assert float(records["completion"]) >= 67.5
    assert rows(tmp_path / "r", "curves")[0]["x"] == "0.0"


def test_a_run_ends_where_it_is_asked_to(tmp_path: Path) -> None:
    """After so many pods nothing more arrives."""
    changes = {"stop": {"arrived": 5}, "measures": [{"name": "arrived", "pods": "Arrived"}]}
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    assert {row["arrived"] for row in rows(tmp_path / "r", "runs")} == {"5.0"}


def test_a_broken_variant_loses_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that fails is named at the end, and the exit code is 1."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Halves}\nspec:\n"
        "  params: {by: 2}\n  score: {expression: 'clamp(100 / params.by, 0, 100)'}\n"
        "  measures:\n  - {name: halves, expression: 100 / params.by}\n",
        encoding="utf-8",
    )
    changes: dict[str, Any] = {
        "base": {"policies": ["policy.yaml"]},
        "variants": [{"name": "two"}, {"name": "none", "params": {"Halves": {"by": 0}}}],
        "measures": [{"name": "h", "policy": "Halves", "measure": "halves"}],
    }
    code = sweep_in(tmp_path / "r", tiny(tmp_path, changes))
    out = capsys.readouterr().out
    if code == 2:  # the rule is refused before anything runs
        raise AssertionError(out)
    assert code == 1
    assert "2 runs without a result:\n  none, seed 1: measure h has no value on node" in out
    assert [row["h"] for row in rows(tmp_path / "r", "runs")] == ["200.0", "200.0"]


@pytest.mark.parametrize(("rule", "word"), [("0.0 / 0.0", "nan"), ("-1.0 / 0.0", "-inf")])
def test_a_value_that_is_no_number_is_a_failure(
    rule: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is infinite or no number is in no table and no figure; the runs are named."""
    changes = {"measures": [{"name": "m", "nodes": rule}, {"name": "p", "pods": "Placed"}]}
    report = str(tmp_path / "report.html")
    options = ["--figures", "svg", "--report", report]
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes), *options) == 1
    out = capsys.readouterr().out
    assert f"  packed, seed 2: measure m is {word} at event 1: a division by zero" in out
    assert rows(tmp_path / "r", "runs") == []
    assert Path(report).exists()


def test_a_matrix_runs_every_combination(tmp_path: Path) -> None:
    """Axes of weights and parameters are multiplied with the variants."""
    changes: dict[str, Any] = {
        "variants": [],
        "matrix": [
            {"weight": "NodeResourcesFit", "values": [1, 0], "name": "fit"},
            {
                "param": "NodeResourcesFit.scoringStrategy.type",
                "values": ["LeastAllocated", "MostAllocated"],
            },
        ],
    }
    names = list(prepared(tmp_path, changes).variants)
    assert names[0] == "fit=1,NodeResourcesFit.scoringStrategy.type=LeastAllocated"
    assert len(names) == 4


def test_tables_do_not_depend_on_who_runs(tmp_path: Path) -> None:
    """A pool of two workers gives the bytes of one process."""
    sweep = prepared(tmp_path)
    texts = []
    for workers in (1, 2):
        store = ResultStore(tmp_path / str(workers))
        outcome = run_tasks(sweep, sweep.tasks, store, engine_of(None, workers, print))
        assert not outcome.failures
        texts.append([table.csv() for table in tables(sweep.spec, outcome.results)])
    assert texts[0] == texts[1]


def test_quotas_may_depend_on_what_a_variant_changes(tmp_path: Path) -> None:
    """What teams may borrow was in objects alone, which all variants have in common."""
    amounts = '{"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}}'
    spec = f'{{"type": "object", "properties": {{"own": {amounts}}}}}'
    schema = f'{{"type": "object", "properties": {{"spec": {spec}}}}}'
    (tmp_path / "team.json").write_text(schema, encoding="utf-8")
    (tmp_path / "teams.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(TEAMS, encoding="utf-8")
    changes = {
        "cluster": {"generate": ["4*cpu=8,memory=32Gi"], "files": ["teams.yaml"]},
        "variants": None,
        "base": {"policies": ["policy.yaml"]},
        "matrix": [{"param": "Teams.limitTimes", "values": [1, 2, 9]}],
        "curve": None,
    }
    assert run(["check", str(tmp_path / "policy.yaml")]) == 0
    assert sweep_in(tmp_path / "r", tiny(tmp_path, changes)) == 0
    cpu = {row["variant"]: float(row["cpu"]) for row in rows(tmp_path / "r", "runs")}
    # 6 of 32 cores, twice that, and more than there is
    assert cpu["Teams.limitTimes=1"] == pytest.approx(18.75)
    assert cpu["Teams.limitTimes=2"] == pytest.approx(37.5)
    assert cpu["Teams.limitTimes=9"] > 80


TEAM = """\
apiVersion: example.com/v1
kind: Team
metadata: {name: team, namespace: default}
spec: {own: {cpu: 6}}
"""
TEAMS = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Teams}
spec:
  params: {limitTimes: 1}
  inputs:
  - {name: team, apiVersion: example.com/v1, kind: Team, schema: team.json, key: object.namespace}
  quotas:
  - name: team
    of: inputs.team
    pods: pod.namespace
    nominal: object.spec.own
    limit: object.spec.own * params.limitTimes
  preFilter:
    rules:
    - expression: '!quota.exists || (quota.used + pod.requests).fitsIn(quota.limit, "unlimited")'
      message: the limit is reached
"""
