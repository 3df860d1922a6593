"""The contract between the scheduler and its plugins.

Hook specifications, extension points, Status, CycleState, Handle, results. This is what plugin
authors import. runtime/ runs pipelines, evaluate/ filters and scores nodes over columns.
"""

from policy_sched.framework import hookspecs
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.diagnosis import (
    NO_NODES,
    NOTHING,
    Diagnosis,
    Rejections,
    StatusTable,
    histogram,
    rows_with,
    tally,
)
from policy_sched.framework.extender import (
    EXTENDER,
    Extender,
    NamedVictims,
    NodeVictims,
    Passed,
    Skips,
)
from policy_sched.framework.extension_points import CONFIGURED, POINTS, Combine, Point
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import SchedulerHooks, hookimpl
from policy_sched.framework.results import (
    PASSES,
    Codes,
    Describe,
    DryRunMarker,
    Feasible,
    FilterResult,
    PermitResult,
    Placement,
    Placements,
    PodsToActivate,
    PostFilterResult,
    PreFilterResult,
    RawScores,
    RowRule,
    Rows,
    Scope,
    Scores,
    Signature,
)
from policy_sched.framework.status import (
    SKIP,
    SUCCESS,
    TOO_LATE,
    WAIT,
    Code,
    PendingStatus,
    Status,
    Wait,
)
from policy_sched.framework.waiting_pods import (
    PermitCondition,
    WaitingPod,
    WaitingPods,
    asked_of,
    asking,
)

__all__ = [
    "CONFIGURED",
    "EXTENDER",
    "NOTHING",
    "NO_NODES",
    "PASSES",
    "POINTS",
    "SKIP",
    "SUCCESS",
    "TOO_LATE",
    "WAIT",
    "Code",
    "Codes",
    "Combine",
    "CycleState",
    "Describe",
    "Diagnosis",
    "DryRunMarker",
    "Extender",
    "Feasible",
    "FilterResult",
    "Handle",
    "NamedVictims",
    "NodeVictims",
    "Passed",
    "PendingStatus",
    "PermitCondition",
    "PermitResult",
    "Placement",
    "Placements",
    "PodsToActivate",
    "Point",
    "PostFilterResult",
    "PreFilterResult",
    "RawScores",
    "Rejections",
    "RowRule",
    "Rows",
    "SchedulerHooks",
    "Scope",
    "Scores",
    "Signature",
    "Skips",
    "Status",
    "StatusTable",
    "Wait",
    "WaitingPod",
    "WaitingPods",
    "asked_of",
    "asking",
    "histogram",
    "hookimpl",
    "hookspecs",
    "rows_with",
    "tally",
]
