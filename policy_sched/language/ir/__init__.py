"""The intermediate representation: a graph of operations, analyses and passes over it.

Read sets, cost, code motion, monotonicity, reassociation. Building the graph is lower/, printing
it codegen/.
"""

from policy_sched.language.ir import graph as graph, ops as ops
from policy_sched.language.ir.code_motion import (
    NOTHING as NOTHING,
    Block as Block,
    CodeMotion as CodeMotion,
    Cost as Cost,
    cost_of as cost_of,
    known_steps as known_steps,
    placed_over_rows as placed_over_rows,
)
from policy_sched.language.ir.count_pass import (
    COUNTED_LOOPS as COUNTED_LOOPS,
    CountPass as CountPass,
    PodCount as PodCount,
    count_op as count_op,
)
from policy_sched.language.ir.dependencies import (
    Reads as Reads,
    field_of_column as field_of_column,
    find_reads as find_reads,
    may_become_true as may_become_true,
)
from policy_sched.language.ir.graph import (
    MIXED as MIXED,
    Builder as Builder,
    Call as Call,
    Level as Level,
    Loop as Loop,
    Op as Op,
    Site as Site,
    reached as reached,
)
from policy_sched.language.ir.ops import LoopKind as LoopKind, OpKind as OpKind
from policy_sched.language.ir.pod_invariant import (
    POD_LIMIT as POD_LIMIT,
    ObjectPart as ObjectPart,
    ObjectParts as ObjectParts,
    PodInvariance as PodInvariance,
    PodInvariants as PodInvariants,
    Reassociation as Reassociation,
    find_pod_invariants as find_pod_invariants,
)
from policy_sched.language.ir.recording import (
    Recording as Recording,
    rebuilt as rebuilt,
    recorded as recorded,
)
from policy_sched.language.ir.regions import (
    Region as Region,
    Shapes as Shapes,
    row_classes as row_classes,
)
