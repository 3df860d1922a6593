"""Recorded cases of preemption for pod groups come out as they did in kube-scheduler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from policy_sched.policytest.report import ScenarioReport
from policy_sched.policytest.runner import run_scenario
from policy_sched.policytest.scenario import Scenario, load_scenarios

HERE: Final = Path(__file__).parents[1] / "conformance"
ROOT: Final = Path(os.environ.get("POLICY_SCHED_CONFORMANCE") or HERE)
"""Where the file is: the copy beside the tests, or another of the same form."""
_PLACES: Final = (ROOT / "dra-cases", ROOT, ROOT.parent / "dra-cases")
_NAME: Final = "group-preemption.jsonl.gz"


def cases() -> list[Scenario]:
    """Return the cases of the first file that is there."""
    found = (place / _NAME for place in _PLACES if (place / _NAME).is_file())
    path = next(found, None)
    return [] if path is None else load_scenarios(str(path))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_groups_preempt_as_in_kube_scheduler(case: Scenario) -> None:
    """Order, victims, nominations, messages and the condition of the group."""
    results = run_scenario(case)
    assert results
    assert all(result.ok for result in results), "\n".join(ScenarioReport(results).text_lines())


def test_the_cases_are_there() -> None:
    """A moved file would leave nothing to compare."""
    assert cases()
