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
    TakesLong,
)
from policy_sched.scheduler.event_handlers import (
    Happened,
    node_gone,
    node_seen,
    object_gone,
    object_seen,
    pod_gone,
    pod_seen,
)
from policy_sched.scheduler.eviction import clear_lower_nominations, prepare_candidate
from policy_sched.scheduler.failure import record_no_profile
from policy_sched.scheduler.placement_search import GroupPlan
from policy_sched.scheduler.pod_group_cycle import (
    GroupTurn,
    dry_run_group,
    schedule_group,
    tell_group,
    verdicts,
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
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.scheduling_cycle import decide

__all__ = [
    "NO_PROFILE",
    "Attempt",
    "Bind",
    "Decision",
    "Events",
    "GroupPlan",
    "GroupTurn",
    "Happened",
    "Outcome",
    "Preempt",
    "Profile",
    "Reject",
    "Scheduler",
    "TakesLong",
    "build_queue",
    "clear_lower_nominations",
    "decide",
    "dry_run_group",
    "first_objection",
    "node_gone",
    "node_seen",
    "object_gone",
    "object_seen",
    "pod_gone",
    "pod_seen",
    "prepare_candidate",
    "queue_gate",
    "queue_hints",
    "queue_order",
    "record_no_profile",
    "schedule_group",
    "tell_group",
    "verdicts",
]
