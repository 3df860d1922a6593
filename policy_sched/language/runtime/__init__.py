"""What generated code calls: scalar and vector operations, contexts, materialized columns.

No parsing and no checking; this is pod time.
"""

from policy_sched.language.runtime import context as context, scalar as scalar, vector as vector
from policy_sched.language.runtime.activation import (
    FAILED as FAILED,
    MAX_SCORE as MAX_SCORE,
    NORMALIZERS as NORMALIZERS,
    NOT_NEGATIVE as NOT_NEGATIVE,
    NOTHING as NOTHING,
    SURE_SCORE as SURE_SCORE,
    Activation as Activation,
    Event as Event,
    RawScores as RawScores,
    failures as failures,
    no_allocation as no_allocation,
    normalized as normalized,
)
from policy_sched.language.runtime.context import NO_DOMAIN as NO_DOMAIN, Runtime as Runtime
from policy_sched.language.runtime.incremental import (
    ColumnGroup as ColumnGroup,
    Condition as Condition,
    MaterializedColumns as MaterializedColumns,
)
from policy_sched.language.runtime.scalar import (
    deviation as deviation,
    divide_by_zero as divide_by_zero,
    int64 as int64,
    mean as mean,
    remainder as remainder,
    round_half_away as round_half_away,
)
from policy_sched.language.runtime.tracing import TracedRuntime as TracedRuntime
from policy_sched.language.runtime.vector import TextCall as TextCall, in_int64 as in_int64
