"""Calls per pod: a number that no machine changes, and that must not grow unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from policy_sched.bench.calls import calls_per_pod
from policy_sched.bench.ledger import COUNTED_NODES
from policy_sched.bench.workloads import WORKLOADS

CEILINGS = Path(__file__).parent / "calls_per_pod.json"
UPDATE = bool(os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"))
NAMES = sorted({workload.name for workload in WORKLOADS.values()})


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_costs_no_more_calls_than_are_recorded(name: str) -> None:
    """Each workload stays within its ceiling; with POLICY_SCHED_UPDATE_GOLDEN=1 it is written."""
    found = calls_per_pod(WORKLOADS[name], COUNTED_NODES)
    counted = {"calls": found.calls, "files": found.files, "moves": found.moves}
    ceilings = json.loads(CEILINGS.read_text("utf-8"))
    if UPDATE:
        ceilings[name] = counted
        CEILINGS.write_text(json.dumps(ceilings, indent=2, sort_keys=True) + "\n", "utf-8")
    ceiling = ceilings[name]
    over = {key: value for key, value in counted.items() if value > ceiling[key]}
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
