"""The contract between the scheduler and its plugins.

Hook specifications, extension points, Status, CycleState, Handle, results. This is what plugin
authors import. runtime/ runs pipelines, evaluate/ filters and scores nodes over columns.
"""

from policy_sched.cluster.tables import Scope as Scope
from policy_sched.framework import hookspecs as hookspecs
from policy_sched.framework.attempt_budget import (
    UNITS as UNITS,
    AttemptBudget as AttemptBudget,
    DeadlineExceeded as DeadlineExceeded,
)
from policy_sched.framework.cycle_state import CycleState as CycleState
from policy_sched.framework.diagnosis import (
    NO_NODES as NO_NODES,
    NOTHING as NOTHING,
    ByRow as ByRow,
    Diagnosis as Diagnosis,
    Rejections as Rejections,
    StatusTable as StatusTable,
    histogram as histogram,
    rows_with as rows_with,
    tally as tally,
)
from policy_sched.framework.extender import (
    EXTENDER as EXTENDER,
    Extender as Extender,
    NamedVictims as NamedVictims,
    NodeVictims as NodeVictims,
    Passed as Passed,
    Skips as Skips,
)
from policy_sched.framework.extension_points import (
    CONFIGURED as CONFIGURED,
    POINTS as POINTS,
    Combine as Combine,
    Point as Point,
)
from policy_sched.framework.grouped_sums import (
    Addend as Addend,
    Formula as Formula,
    GroupedSums as GroupedSums,
    Rescored as Rescored,
)
from policy_sched.framework.handle import Handle as Handle
from policy_sched.framework.hookspecs import SchedulerHooks as SchedulerHooks, hookimpl as hookimpl
from policy_sched.framework.kernel import (
    NO_CODE as NO_CODE,
    NO_KERNEL as NO_KERNEL,
    FirstRejection as FirstRejection,
    FusedRules as FusedRules,
    NumberedFilters as NumberedFilters,
    OverlayFilter as OverlayFilter,
    Rejection as Rejection,
    RowFunctions as RowFunctions,
    RowKernel as RowKernel,
    RowRule as RowRule,
    Update as Update,
)
from policy_sched.framework.results import (
    PASSES as PASSES,
    Codes as Codes,
    Describe as Describe,
    DescribeMasked as DescribeMasked,
    DryRunMarker as DryRunMarker,
    Elsewhere as Elsewhere,
    Evictions as Evictions,
    Feasible as Feasible,
    FilterResult as FilterResult,
    GroupFailure as GroupFailure,
    Masked as Masked,
    NodeEviction as NodeEviction,
    PermitResult as PermitResult,
    Placement as Placement,
    Placements as Placements,
    PodGroupCycle as PodGroupCycle,
    PodGroupMember as PodGroupMember,
    PodsToActivate as PodsToActivate,
    PodToEvict as PodToEvict,
    PostFilterResult as PostFilterResult,
    PreFilterResult as PreFilterResult,
    RawScores as RawScores,
    Rows as Rows,
    Scores as Scores,
)
from policy_sched.framework.signature import (
    SAME_CODES as SAME_CODES,
    Gate as Gate,
    Incremental as Incremental,
    PodKey as PodKey,
    Refiltered as Refiltered,
    Signature as Signature,
)
from policy_sched.framework.status import (
    SKIP as SKIP,
    SUCCESS as SUCCESS,
    TOO_LATE as TOO_LATE,
    WAIT as WAIT,
    Code as Code,
    PendingStatus as PendingStatus,
    Status as Status,
    Wait as Wait,
)
from policy_sched.framework.waiting_pods import (
    PermitCondition as PermitCondition,
    WaitingPod as WaitingPod,
    WaitingPods as WaitingPods,
    permit_of as permit_of,
    with_permit as with_permit,
)
