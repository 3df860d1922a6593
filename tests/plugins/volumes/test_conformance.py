"""The recorded decisions of kube-scheduler about pods with volumes, step by step."""

from __future__ import annotations

from pathlib import Path

from policy_sched.policytest.runner import run_scenario
from policy_sched.policytest.scenario import load_scenarios

RECORD = Path(__file__).parents[2] / "conformance" / "volumes.jsonl.gz"


def test_every_step_is_as_recorded() -> None:
    """Rejections, messages, scores and nodes, with the reservations of earlier steps."""
    results = [result for one in load_scenarios(str(RECORD)) for result in run_scenario(one)]
    assert len(results) == 400
    assert [result for result in results if result.differences] == []
