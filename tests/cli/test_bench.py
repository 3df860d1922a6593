"""The verb `bench`: what it reports. What it measures depends on the machine."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.bench import Name
from policy_sched.cli.main import run
from policy_sched.simulate.workloads import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_json_has_what_a_program_wants(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every workload runs, and places all its pods; numbers are numbers."""
    assert run(["bench", name, "--nodes", "60", "--pods", "30", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["workload"] == WORKLOADS[name].name
    assert (result["nodes"], result["pods"], result["unschedulable"]) == (60, 30, 0)
    assert result["decisions_per_second"] > 0
    assert 0 < result["p50_us"] <= result["p99_us"]
    assert list(result["phases"]) == ["cold", "warm"]
    assert result["init_pods"] == round(60 * WORKLOADS[name].init_per_node)


def test_text_says_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for the workload, one for each phase, and notes on what is different."""
    assert run(["bench", "SchedulingDistinct", "--nodes", "5", "--pods", "300"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SchedulingDistinct: 5 nodes, 1 init pods, 300 pods; every node")
    assert lines[1].startswith("  cold")
    assert lines[2].endswith("of 300 pods did not fit")
    assert lines[3].startswith("  warm")
    assert lines[-1].startswith("  note: not of scheduler_perf")


def test_every_workload_can_be_named() -> None:
    """The names that the command line takes are those of the workloads."""
    assert set(Name.__args__) == set(WORKLOADS)
