"""`policy-sched check`: problems, lints, costs, names that a snapshot lacks.

Returns diagnostics; printing is in `cli`.
"""

from policy_sched.profiles.check.check import (
    Checkup,
    check_all,
    check_files,
    check_open,
    config_errors,
    rule_errors,
)
from policy_sched.profiles.check.cost_report import cost_report
from policy_sched.profiles.check.snapshot import device_names, selectors_of, snapshot_of

__all__ = [
    "Checkup",
    "check_all",
    "check_files",
    "check_open",
    "config_errors",
    "cost_report",
    "device_names",
    "rule_errors",
    "selectors_of",
    "snapshot_of",
]
