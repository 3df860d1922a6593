"""`policy-sched test`: scenarios, expectations, recorded decisions and coverage.

Reads PolicyTest files and recorded decisions, runs them against a scheduler, compares and reports.
"""

from policy_sched.policytest.coverage import (
    LocationCoverage as LocationCoverage,
    RuleCoverage as RuleCoverage,
    coverage_lines as coverage_lines,
    percent as percent,
)
from policy_sched.policytest.expectations import (
    ExpectedOutcome as ExpectedOutcome,
    PluginOutcome as PluginOutcome,
)
from policy_sched.policytest.page import scenarios_page as scenarios_page
from policy_sched.policytest.report import ScenarioReport as ScenarioReport
from policy_sched.policytest.runner import (
    FileResults as FileResults,
    ScenarioRun as ScenarioRun,
    observe_scenario as observe_scenario,
    run_files as run_files,
)
from policy_sched.policytest.scenario import (
    Scenario as Scenario,
    load_scenarios as load_scenarios,
    scenarios_of as scenarios_of,
)
from policy_sched.policytest.update_golden import update_file as update_file
