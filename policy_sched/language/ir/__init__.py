"""The intermediate representation: a graph of operations, analyses and passes over it.

Read sets, cost, code motion, monotonicity, reassociation. Building the graph is lower/, printing
it codegen/.
"""

from policy_sched.language.ir import graph, ops
from policy_sched.language.ir.code_motion import (
    NOTHING,
    Block,
    CodeMotion,
    Cost,
    cost_of,
    known_steps,
    placed_over_rows,
)
from policy_sched.language.ir.count_pass import CountPass, PodCount, count_op
from policy_sched.language.ir.dependencies import (
    Reads,
    field_of_column,
    find_reads,
    may_become_true,
)
from policy_sched.language.ir.graph import MIXED, Builder, Call, Level, Loop, Op, Site, reached
from policy_sched.language.ir.ops import LoopKind, OpKind
from policy_sched.language.ir.pod_invariant import (
    POD_LIMIT,
    PodInvariance,
    PodInvariants,
    Reassociation,
    find_pod_invariants,
)
from policy_sched.language.ir.recording import Recording, rebuilt, recorded
from policy_sched.language.ir.regions import Region, Shapes
from policy_sched.language.ir.row_classes import row_classes

__all__ = [
    "MIXED",
    "NOTHING",
    "POD_LIMIT",
    "Block",
    "Builder",
    "Call",
    "CodeMotion",
    "Cost",
    "CountPass",
    "Level",
    "Loop",
    "LoopKind",
    "Op",
    "OpKind",
    "PodCount",
    "PodInvariance",
    "PodInvariants",
    "Reads",
    "Reassociation",
    "Recording",
    "Region",
    "Shapes",
    "Site",
    "cost_of",
    "count_op",
    "field_of_column",
    "find_pod_invariants",
    "find_reads",
    "graph",
    "known_steps",
    "may_become_true",
    "ops",
    "placed_over_rows",
    "reached",
    "rebuilt",
    "recorded",
    "row_classes",
]
