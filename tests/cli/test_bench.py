"""The verb `bench`: what it reports. What it measures depends on the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from policy_sched.bench import (
    api as api_benchmark,
    check as check_benchmark,
    event_loop_latency as turns_benchmark,
    hostile as hostile_benchmark,
    inputs as inputs_benchmark,
    ledger,
    recording as recording_benchmark,
    reload as reload_benchmark,
    replay as replay_benchmark,
    rule_cost as rule_cost_benchmark,
    size,
    snapshot as snapshot_benchmark,
)
from policy_sched.bench.workloads import DRY_RUN, WORKLOADS
from policy_sched.cli.bench import Name
from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
EVICTED = {"PreemptionBasic": 90, "PreemptionAsync": 3}
"""Three pods for each of 30 pods of high priority, or for the one that churns."""
UNPLACED = {"Unschedulable": 1, "UnschedulableDistinct": 30}
"""The pod that churns, or all pods."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_json_has_what_a_program_wants(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every workload runs, and places the pods that it should; numbers are numbers."""
    assert run(["bench", name, "--nodes", "60", "--pods", "30", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    workload = WORKLOADS[name]
    assert result["workload"] == workload.name
    assert (result["nodes"], result["pods"]) == (60, 30)
    assert result["unschedulable"] == UNPLACED.get(name, 0)
    assert result["decisions_per_second"] > 0
    assert 0 < result["p50_us"] <= result["p99_us"]
    assert result["threshold"] is None, "it is measured on other numbers of nodes"
    assert list(result["phases"]) == ["cold", "warm"]
    for phase in result["phases"].values():
        assert phase["churned"] == (0 if workload.churn is None else 1)
        assert phase["evicted"] == EVICTED.get(workload.name, 0)
    assert result["init_pods"] == round(60 * workload.init_per_node)


def test_a_result_is_compared_with_the_threshold_of_upstream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On as many nodes as scheduler_perf has: its threshold, and how many times that it is."""
    small = replace(WORKLOADS["TopologySpreading"], nodes=30, pods=20)
    monkeypatch.setitem(WORKLOADS, "TopologySpreading", small)
    assert run(["bench", "TopologySpreading", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["threshold"] == 85
    rate = result["decisions_per_second"]
    assert result["ratio"] == pytest.approx(rate / 85, abs=0.1)
    assert run(["bench", "TopologySpreading"]) == 0
    line = capsys.readouterr().out.splitlines()[3]
    assert line.endswith(" times the 85 pods/s that scheduler_perf asks for")


def test_a_dry_run_is_measured_in_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Median, 99th percentile and the number of victims, which are the same every time."""
    assert run(["bench", "PreemptionDryRun", "--nodes", "20", "--pods", "5", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["nodes"], result["pods"], result["searches"]) == (20, 200, 5)
    assert result["disruption_budgets"] == 3
    assert 0 < result["median_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert result["scratch_median_ms"] > 0
    assert result["victims"] == 8
    assert run(["bench", "PreemptionDryRun", "--nodes", "20", "--pods", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PreemptionDryRun: 20 nodes, 200 pods, 3 disruption budgets")
    assert lines[1].startswith("  from scratch: median ")
    assert lines[2].startswith("  after a change of one node's pods: median ")


def test_evictions_and_churn_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """How many pods came in between, how long theirs took, and how many made room for them."""
    assert run(["bench", "PreemptionAsync", "--nodes", "20", "--pods", "40"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("        2 pods churned: p50 ")
    assert lines[3] == "        6 pods were evicted"
    assert lines[-1].startswith("  note: no clock runs here: instead of every 200 ms")


def test_text_says_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for the workload, one for each phase, and notes on what is different."""
    assert run(["bench", "SchedulingDistinct", "--nodes", "5", "--pods", "300"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SchedulingDistinct: 5 nodes, 1 init pods, 300 pods; every node")
    assert lines[1].startswith("  cold")
    assert lines[2].endswith("of 300 pods did not fit")
    assert lines[3].startswith("  warm")
    assert lines[-1].startswith("  note: not of scheduler_perf")


def test_policies_of_bench_decide_where_pods_go(capsys: pytest.CaptureFixture[str]) -> None:
    """They have a say in the placement of pods like those of their own scenarios."""
    folder = POLICIES / "max-per-host"
    arguments = ["bench", "SchedulingBasic", "--nodes", "10", "--pods", "25", "-o", "json"]
    arguments += ["--like", str(folder / "tests.yaml")]
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["unschedulable"] == 0
    assert run([*arguments, "--policies", str(folder)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["unschedulable"] == 5, "two pods of the one owner on each node"
    assert result["note"].startswith("nodes and pods look like those of ")


def test_namespaces_of_the_scenario_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods of one tenant share nodes, though init pods of no tenant keep them off one of five."""
    folder = POLICIES / "tenant-isolation"
    arguments = ["bench", "SchedulingBasic", "--nodes", "10", "--pods", "50", "-o", "json"]
    assert run([*arguments, "--like", str(folder / "tests.yaml"), "--policies", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["unschedulable"] == 0


def test_check_is_measured_on_policies(capsys: pytest.CaptureFixture[str]) -> None:
    """From the start of the process to its end."""
    assert run(["bench", "Check", "--pods", "2", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["policies"], len(result["runs"])) == (2, check_benchmark.RUNS)
    assert 0 < result["seconds"] == min(result["runs"])


def test_reading_a_snapshot_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The same objects as JSON, as YAML and as YAML with aliases, with CPU and memory of each."""
    assert run(["bench", "Snapshot", "--nodes", "6", "--pods", "9", "-o", "json"]) == 0
    forms = json.loads(capsys.readouterr().out)["forms"]
    assert [form["form"] for form in forms] == ["JSON", "YAML", "YAML with aliases"]
    assert all(form["cpuSeconds"] > 0 and form["peakMegabytes"] > 0 for form in forms)


def test_estimates_are_held_against_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    """Each rule has its estimate, its time and the ratio of both."""
    assert run(["bench", "RuleCost", "--nodes", "30", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["nodes"] == 30
    assert {"rule", "estimate_us", "measured_us", "ratio"} <= set(result["rules"][0])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("SchedulingBasic --tls --existing 3", "SchedulingBasic has no use for --existing, --tls"),
        ("Check --nodes 3", "Check has no use for --nodes"),
        ("Turns --tls", "Turns has no use for --tls"),
        ("Hostile --existing 3", "Hostile has no use for --existing"),
        ("API --like x", "API has no use for --like"),
    ],
)
def test_options_that_would_change_nothing_are_refused(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers would be taken for those of something else."""
    assert run(["bench", *line.split()]) == 2
    assert capsys.readouterr().err == f"policy-sched: bench {words}\n"


def test_every_workload_can_be_named() -> None:
    """The names that the command line takes are those of the workloads."""
    assert set(Name.__args__) == {
        *WORKLOADS,
        DRY_RUN.name,
        reload_benchmark.NAME,
        rule_cost_benchmark.NAME,
        check_benchmark.NAME,
        api_benchmark.NAME,
        turns_benchmark.NAME,
        hostile_benchmark.NAME,
        snapshot_benchmark.NAME,
        inputs_benchmark.NAME,
        recording_benchmark.NAME,
        replay_benchmark.NAME,
        ledger.NAME,
        size.NAME,
    }
