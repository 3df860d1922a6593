"""Calls per pod: a number that no machine changes, and that must not grow unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from policy_sched.bench.ledger import COUNTED_NODES, calls_per_pod
from policy_sched.bench.workloads import WORKLOADS

CEILINGS = Path(__file__).parent / "calls_per_pod.json"
UPDATE = bool(os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"))
NAMES = sorted({workload.name for workload in WORKLOADS.values()})


@pytest.fixture(scope="module")
def counts() -> dict[str, Any]:
    """Return what each workload costs, counted in a fresh process: nothing is cached before."""
    command = [sys.executable, "-m", "tests.bench.test_calls"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    if UPDATE:
        CEILINGS.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_costs_no_more_calls_than_are_recorded(name: str, counts: dict[str, Any]) -> None:
    """Each workload stays within its ceiling; with POLICY_SCHED_UPDATE_GOLDEN=1 it is written."""
    ceiling = json.loads(CEILINGS.read_text("utf-8"))[name]
    over = {key: value for key, value in counts[name].items() if value > ceiling[key]}
    assert not over, f"{name}: {over} per pod, of {ceiling} that {CEILINGS.name} allows"


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
