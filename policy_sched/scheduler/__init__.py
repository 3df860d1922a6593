"""The scheduler: from the queue to the binding, under kube-scheduler's names.

scheduler pops, scheduling_cycle decides, binding_cycle binds, failure handles rejections,
event_handlers apply changes of the cluster. setup/ assembles a scheduler from policies.
"""

from policy_sched.scheduler.attempt import (
    Attempt,
    Bind,
    Decision,
    Outcome,
    Preempt,
    Profile,
    Reject,
)
from policy_sched.scheduler.event_handlers import (
    Happened,
    node_gone,
    node_seen,
    object_changed,
    object_gone,
    object_seen,
    pod_ended,
    pod_gone,
    pod_runs,
    pod_seen,
)
from policy_sched.scheduler.eviction import clear_lower_nominations
from policy_sched.scheduler.failure import record_no_profile, rejectors
from policy_sched.scheduler.placement_search import GroupPlan
from policy_sched.scheduler.pod_group_algorithm import Member
from policy_sched.scheduler.pod_group_cycle import (
    GroupDecision,
    condition_reason,
    decided_together,
    dry_run_group,
    dry_run_members,
    gated,
    schedule_group,
)
from policy_sched.scheduler.pod_group_outcomes import (
    MemberDecision,
    member_decision,
    member_decisions,
)
from policy_sched.scheduler.queueing_hints import (
    NO_PROFILE,
    Events,
    build_queue,
    first_objection,
    queue_gate,
    queue_hints,
    queue_order,
)
from policy_sched.scheduler.resource_claims import free_claims, make_claims
from policy_sched.scheduler.scheduler import Observers, Scheduler
from policy_sched.scheduler.scheduling_cycle import decide, decide_without_reasons
from policy_sched.scheduler.single_pass import single_pass

__all__ = [
    "NO_PROFILE",
    "Attempt",
    "Bind",
    "Decision",
    "Events",
    "GroupDecision",
    "GroupPlan",
    "Happened",
    "Member",
    "MemberDecision",
    "Observers",
    "Outcome",
    "Preempt",
    "Profile",
    "Reject",
    "Scheduler",
    "build_queue",
    "clear_lower_nominations",
    "condition_reason",
    "decide",
    "decide_without_reasons",
    "decided_together",
    "dry_run_group",
    "dry_run_members",
    "first_objection",
    "free_claims",
    "gated",
    "make_claims",
    "member_decision",
    "member_decisions",
    "node_gone",
    "node_seen",
    "object_changed",
    "object_gone",
    "object_seen",
    "pod_ended",
    "pod_gone",
    "pod_runs",
    "pod_seen",
    "queue_gate",
    "queue_hints",
    "queue_order",
    "record_no_profile",
    "rejectors",
    "schedule_group",
    "single_pass",
]
