"""`policy-sched check`: problems, lints, costs, names that a snapshot lacks.

Returns diagnostics; printing is in `cli`. Costs and snapshots need plugins and the framework, which
take long to import, so they are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from policy_sched.profiles.check.check import (
    Checkup as Checkup,
    check_all as check_all,
    check_files as check_files,
    check_open as check_open,
    config_errors as config_errors,
    rule_errors as rule_errors,
    rule_problems as rule_problems,
)
from policy_sched.profiles.check.proofs import (
    ELIGIBLE as ELIGIBLE,
    ENQUEUES as ENQUEUES,
    NORMALIZED as NORMALIZED,
    OF_POLICIES as OF_POLICIES,
    PASSES as PASSES,
    SCORE as SCORE,
    TAKES_PART as TAKES_PART,
    VICTIM as VICTIM,
    CheckedProof as CheckedProof,
    ClaimRule as ClaimRule,
    check_proof as check_proof,
    is_proof as is_proof,
    policies_of as policies_of,
    resolved as resolved,
    source_of_claims as source_of_claims,
)
from policy_sched.profiles.check.rollouts import (
    UNTRIED as UNTRIED,
    CheckedAbortRule as CheckedAbortRule,
    CheckedRollout as CheckedRollout,
    another_rollout as another_rollout,
    check_rollout as check_rollout,
    is_rollout as is_rollout,
    untried_changes as untried_changes,
)

if TYPE_CHECKING:
    from policy_sched.profiles.check.cost_report import cost_report as cost_report
    from policy_sched.profiles.check.snapshot import (
        device_names as device_names,
        selectors_of as selectors_of,
        snapshot_of as snapshot_of,
    )


_LATER = {
    "cost_report": "cost_report",
    "device_names": "snapshot",
    "selectors_of": "snapshot",
    "snapshot_of": "snapshot",
}


def __getattr__(name: str) -> Any:
    """Import the report of costs, or what compares with a snapshot."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value  # a submodule has the name of its function
    return value
