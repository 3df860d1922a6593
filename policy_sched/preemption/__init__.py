"""Preemption as a pure search: victims, dry runs, reprieve, ranking of candidates.

Nothing is evicted here; the scheduler executes the result.
"""

from policy_sched.preemption.attempt import PreemptionAttempt as PreemptionAttempt
from policy_sched.preemption.budgets import budget_of as budget_of
from policy_sched.preemption.group_units import (
    Unit as Unit,
    in_order_of_reprieve as in_order_of_reprieve,
    units_below as units_below,
)
from policy_sched.preemption.policy_section import (
    BoundPreemption as BoundPreemption,
    CandidateNodes as CandidateNodes,
    Case as Case,
    Taken as Taken,
)
from policy_sched.preemption.rules import NodeKey as NodeKey, rules_of as rules_of
from policy_sched.preemption.search import (
    CandidateLimit as CandidateLimit,
    Eviction as Eviction,
    PreemptionSearch as PreemptionSearch,
)
