"""kube-scheduler's own decisions, recorded: every step must come out as it did."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy_sched.simulate.scenario_file import run_file
from policy_sched.simulate.scenario_report import last_line, text_lines

HERE = Path(__file__).parents[1] / "conformance"
CONFORMANCE = Path(os.environ.get("POLICY_SCHED_CONFORMANCE") or HERE)
"""Where the recorded files are: the copy beside the tests, or other seeds of the same families."""

STEPS = {
    "resources": 480,
    "taints": 480,
    "nodeaffinity": 480,
    "nodename_ports": 480,
    "images": 400,
    "gates": 240,
    "config": 320,
    "spread": 480,
    "interpod": 480,
    "volumes": 400,
    "preemption": 640,
    "mixed": 1200,
    "queue": 22500,
}
"""Families of scenarios and sequences, and how many steps each has."""


@pytest.mark.parametrize(("family", "steps"), STEPS.items(), ids=STEPS)
def test_every_decision_is_kube_schedulers(family: str, steps: int) -> None:
    """Statuses, reasons, every plugin's score of every node, messages; every pod of the queue."""
    results = run_file(str(CONFORMANCE / f"{family}.jsonl.gz"))
    if CONFORMANCE != HERE:
        steps = len(results)
    expected = f"{steps} of {steps} steps as expected"
    assert last_line(results) == expected, "\n".join(text_lines(results))
