"""`policy-sched test`: scenarios, expectations, recorded decisions and coverage.

Reads PolicyTest files and recorded decisions, runs them against a scheduler, compares and reports.
"""

from policy_sched.policytest.coverage import (
    LocationCoverage,
    RuleCoverage,
    coverage_lines,
    percent,
)
from policy_sched.policytest.page import scenarios_page
from policy_sched.policytest.report import ScenarioReport
from policy_sched.policytest.runner import FileResults, ScenarioRun, run_files
from policy_sched.policytest.scenario import load_scenarios
from policy_sched.policytest.update_golden import update_file

__all__ = [
    "FileResults",
    "LocationCoverage",
    "RuleCoverage",
    "ScenarioReport",
    "ScenarioRun",
    "coverage_lines",
    "load_scenarios",
    "percent",
    "run_files",
    "scenarios_page",
    "update_file",
]
