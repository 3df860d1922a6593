"""Preemption as a pure search: victims, dry runs, reprieve, ranking of candidates.

Nothing is evicted here; the scheduler executes the result.
"""

from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.group_units import Unit, in_order_of_reprieve, units_below
from policy_sched.preemption.policy_section import BoundPreemption, Case, Spots
from policy_sched.preemption.rules import NodeKey, rules_of
from policy_sched.preemption.search import CandidateLimit, Eviction, PreemptionSearch

__all__ = [
    "BoundPreemption",
    "CandidateLimit",
    "Case",
    "Eviction",
    "NodeKey",
    "PreemptionAttempt",
    "PreemptionSearch",
    "Spots",
    "Unit",
    "in_order_of_reprieve",
    "rules_of",
    "units_below",
]
