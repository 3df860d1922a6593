"""The ledger of all benchmarks: a row for each workload, as a table and as data.

Calls per pod: a number that no machine changes, and that must not grow unseen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from policy_sched.bench import ledger
from policy_sched.bench.ledger import COUNTED_NODES, calls_per_pod
from policy_sched.bench.workloads import BASIC, WORKLOADS
from policy_sched.cli.main import run


def test_every_workload_is_in_the_ledger_once() -> None:
    """SchedulingBasic comes first, on three numbers of nodes; the others on their own."""
    plan = ledger.plan(None)
    assert plan[:3] == [(BASIC.name, None), (BASIC.name, 50_000), (BASIC.name, 100_000)]
    others = [name for name, nodes in plan[3:] if nodes is None]
    assert len(others) == len(plan) - 3
    assert sorted([BASIC.name, *others]) == sorted({item.name for item in WORKLOADS.values()})
    assert set(ledger.plan(60)) == {(name, 60) for name in [BASIC.name, *others]}


def test_the_documented_table_is_the_ledger() -> None:
    """docs/performance.md has the columns and the rows that `bench All` prints, in its order."""
    text = (Path(__file__).parents[2] / "docs" / "performance.md").read_text("utf-8")
    table = text.split("## Decisions per second\n")[1].split("\n## ")[0].splitlines()
    heading, _, *rows = [line.strip("| ").split(" | ") for line in table if line.startswith("|")]
    assert heading == list(ledger.HEADINGS)
    plan = [(f"`{name}`", nodes or WORKLOADS[name].nodes) for name, nodes in ledger.plan(None)]
    assert [(row[0], int(row[1].replace(",", ""))) for row in rows] == plan


def test_the_ledger_is_a_table_and_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, thresholds, the floor of the same run, the ratio, and calls per pod."""
    monkeypatch.setattr(ledger, "plan", lambda nodes: [(BASIC.name, nodes)])
    monkeypatch.setattr(ledger, "_FLOOR_VALUES", 25_000)
    command = ["bench", "All", "--nodes", "30", "--pods", "20"]
    assert run([*command, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["rows"]
    assert (row["workload"], row["nodes"], row["pods"]) == ("SchedulingBasic", 30, 20)
    assert row["threshold"] is None
    rate = row["decisions_per_cpu_second"]
    assert rate >= row["decisions_per_second"] / 2
    assert row["ratio_to_floor"] == pytest.approx(rate / row["floor"], abs=0.01)
    assert row["calls"] > row["moves"] > row["files"] > 0
    dry_run = document["dry_run"]
    assert dry_run["searches"] == 20
    searches = 1000 / dry_run["scratch_median_ms"]
    assert dry_run["ratio_to_floor"] == pytest.approx(searches / dry_run["floor"], abs=0.001)
    report = ledger.Ledger("All", (ledger.Row(**row),), _DRY_RUN)
    heading, rule, line, empty, last = report.text_lines()
    assert heading.startswith("| workload | nodes | pods | decisions/s |")
    assert rule == "| --- |" + " ---: |" * (heading.count("|") - 2)
    assert line.startswith("| `SchedulingBasic` | 30 | 20 | ")
    assert heading.count("|") == line.count("|")
    assert not empty
    assert last == (
        "PreemptionDryRun: 5,000 nodes, 50,000 pods, from scratch 2.500 ms "
        "(0.05 of the floor of 8,000/s), else 1.250 ms"
    )


_DRY_RUN = {
    "nodes": 5000,
    "pods": 50_000,
    "median_ms": 1.25,
    "scratch_median_ms": 2.5,
    "floor": 8000,
    "ratio_to_floor": 0.05,
}


def test_a_workload_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the benchmark that failed is shown, without a traceback."""
    monkeypatch.setattr(ledger, "plan", lambda _: [("SchedulingBasic", 0)])
    with pytest.raises(ledger.PolicySchedError, match=r"bench SchedulingBasic fails: .*nodes"):
        ledger.run_all(None, 10)


def test_the_floor_is_the_arithmetic_alone() -> None:
    """It is a rate, in decisions in a second of CPU."""
    assert ledger.floor(100, 50) > 0


CEILINGS = Path(__file__).parent / "calls_per_pod.json"
UPDATE = bool(os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"))
NAMES = sorted({workload.name for workload in WORKLOADS.values()})


def test_a_pod_costs_no_more_calls_than_are_recorded() -> None:
    """Each workload stays within its ceiling; with POLICY_SCHED_UPDATE_GOLDEN=1 it is written.

    They are counted in a fresh process: nothing is cached before.
    """
    command = [sys.executable, "-m", "tests.bench.test_ledger"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts: dict[str, dict[str, int]] = json.loads(done.stdout)
    if UPDATE:
        CEILINGS.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", "utf-8")
    ceilings = json.loads(CEILINGS.read_text("utf-8"))
    over = [
        f"{name}: {value} {key} per pod, of {ceilings[name][key]} that {CEILINGS.name} allows"
        for name, counted in counts.items()
        for key, value in counted.items()
        if value > ceilings[name][key]
    ]
    assert not over


def test_every_ceiling_is_of_a_workload() -> None:
    """The file names exactly the workloads."""
    assert sorted(json.loads(CEILINGS.read_text("utf-8"))) == NAMES


def test_counts_are_the_same_each_time() -> None:
    """Two counts of a workload are equal, and a pod with a claim costs more than one without."""
    plain = WORKLOADS["SchedulingBasic"]
    first = calls_per_pod(plain, 20)
    assert first == calls_per_pod(plain, 20)
    claiming = calls_per_pod(WORKLOADS["SchedulingWithResourceClaimTemplate"], 20)
    assert claiming.calls > first.calls > 0
    assert claiming.files > first.files > 0
    assert claiming.moves > first.moves > 0


if __name__ == "__main__":
    counted = {name: asdict(calls_per_pod(WORKLOADS[name], COUNTED_NODES)) for name in NAMES}
    sys.stdout.write(json.dumps(counted))
