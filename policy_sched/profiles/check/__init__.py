"""`policy-sched check`: problems, lints, costs, names that a snapshot lacks.

Returns diagnostics; printing is in `cli`.
"""

from policy_sched.profiles.check.check import Checkup, check_all, check_files, check_open
from policy_sched.profiles.check.cost_report import cost_report
from policy_sched.profiles.check.snapshot import selectors_of, snapshot_of

__all__ = [
    "Checkup",
    "check_all",
    "check_files",
    "check_open",
    "cost_report",
    "selectors_of",
    "snapshot_of",
]
