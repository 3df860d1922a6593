"""kube-scheduler's own decisions, recorded: every step must come out as it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.simulate.scenario import load_scenarios
from policy_sched.simulate.scenario_report import last_line, text_lines
from policy_sched.simulate.scenario_runner import run_scenario

CONFORMANCE = Path(__file__).parents[1] / "conformance"

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
}
"""Families of scenarios, and how many steps each has."""


@pytest.mark.parametrize(("family", "steps"), STEPS.items(), ids=STEPS)
def test_every_decision_is_kube_schedulers(family: str, steps: int) -> None:
    """Statuses, codes, reasons, every plugin's score of every node, best nodes, messages."""
    scenarios = load_scenarios(str(CONFORMANCE / f"{family}.jsonl.gz"))
    results = [result for scenario in scenarios for result in run_scenario(scenario)]
    expected = f"{steps} of {steps} steps as expected"
    assert last_line(results) == expected, "\n".join(text_lines(results))
