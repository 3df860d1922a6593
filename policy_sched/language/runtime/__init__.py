"""What generated code calls: scalar and vector operations, contexts, materialized columns.

No parsing and no checking; this is pod time.
"""

from policy_sched.language.runtime import context, scalar, vector
from policy_sched.language.runtime.activation import (
    FAILED,
    NORMALIZERS,
    NOT_NEGATIVE,
    NOTHING,
    Activation,
    Event,
    RawScores,
    failures,
    no_allocation,
    normalized,
)
from policy_sched.language.runtime.context import NO_DOMAIN, Runtime, each
from policy_sched.language.runtime.incremental import (
    ColumnGroup,
    Condition,
    MaterializedColumn,
    MaterializedColumns,
)
from policy_sched.language.runtime.scalar import (
    deviation,
    divide_by_zero,
    int64,
    mean,
    remainder,
    round_half_away,
)
from policy_sched.language.runtime.vector import TextCall, in_int64

__all__ = [
    "FAILED",
    "NORMALIZERS",
    "NOTHING",
    "NOT_NEGATIVE",
    "NO_DOMAIN",
    "Activation",
    "ColumnGroup",
    "Condition",
    "Event",
    "MaterializedColumn",
    "MaterializedColumns",
    "RawScores",
    "Runtime",
    "TextCall",
    "context",
    "deviation",
    "divide_by_zero",
    "each",
    "failures",
    "in_int64",
    "int64",
    "mean",
    "no_allocation",
    "normalized",
    "remainder",
    "round_half_away",
    "scalar",
    "vector",
]
