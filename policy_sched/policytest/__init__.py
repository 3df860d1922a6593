"""`policy-sched test`: scenarios, expectations, recorded decisions and coverage.

Reads PolicyTest files and recorded decisions, runs them against a scheduler, compares and reports.
"""

from policy_sched.policytest.coverage import (
    RuleCoverage,
    SpotCoverage,
    coverage_data,
    coverage_lines,
    percent,
)
from policy_sched.policytest.report import as_json, as_junit, as_tap, last_line, text_lines
from policy_sched.policytest.runner import FileResults, ScenarioRun, run_files
from policy_sched.policytest.scenario import load_scenarios
from policy_sched.policytest.update_golden import update_file

__all__ = [
    "FileResults",
    "RuleCoverage",
    "ScenarioRun",
    "SpotCoverage",
    "as_json",
    "as_junit",
    "as_tap",
    "coverage_data",
    "coverage_lines",
    "last_line",
    "load_scenarios",
    "percent",
    "run_files",
    "text_lines",
    "update_file",
]
