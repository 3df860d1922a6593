"""The scheduler: from the queue to the binding, under kube-scheduler's names.

scheduler pops, scheduling_cycle decides, binding_cycle binds, failure handles rejections,
event_handlers apply changes of the cluster. setup/ assembles a scheduler from policies.
"""

from policy_sched.scheduler.attempt import (
    Attempt as Attempt,
    Bind as Bind,
    Decision as Decision,
    Outcome as Outcome,
    Preempt as Preempt,
    Profile as Profile,
    Reject as Reject,
)
from policy_sched.scheduler.binding_cycle import hold as hold, pre_bind_at_once as pre_bind_at_once
from policy_sched.scheduler.canary import Canary as Canary
from policy_sched.scheduler.event_handlers import (
    ClusterChange as ClusterChange,
    free_claims as free_claims,
    make_claims as make_claims,
    node_gone as node_gone,
    node_seen as node_seen,
    object_changed as object_changed,
    object_gone as object_gone,
    object_seen as object_seen,
    pod_ended as pod_ended,
    pod_gone as pod_gone,
    pod_runs as pod_runs,
    pod_seen as pod_seen,
)
from policy_sched.scheduler.eviction import clear_lower_nominations as clear_lower_nominations
from policy_sched.scheduler.failure import (
    note_group_failure as note_group_failure,
    record_no_profile as record_no_profile,
    rejectors as rejectors,
)
from policy_sched.scheduler.placement_search import GroupPlan as GroupPlan
from policy_sched.scheduler.pod_group_algorithm import Member as Member
from policy_sched.scheduler.pod_group_cycle import (
    GroupDecision as GroupDecision,
    MemberDecision as MemberDecision,
    condition_reason as condition_reason,
    dry_run_group as dry_run_group,
    dry_run_members as dry_run_members,
    gated as gated,
    member_decision as member_decision,
    member_decisions as member_decisions,
    schedule_group as schedule_group,
)
from policy_sched.scheduler.policy_evictions import (
    EvictionRound as EvictionRound,
    EvictionTimes as EvictionTimes,
    candidates as candidates,
    evict as evict,
    eviction_rounds as eviction_rounds,
    in_turn as in_turn,
)
from policy_sched.scheduler.queueing_hints import (
    NO_PROFILE as NO_PROFILE,
    Events as Events,
    build_queue as build_queue,
    first_objection as first_objection,
    queue_gate as queue_gate,
    queue_hints as queue_hints,
    queue_order as queue_order,
    queue_sort as queue_sort,
)
from policy_sched.scheduler.scheduler import (
    Observers as Observers,
    Scheduler as Scheduler,
    single_pass as single_pass,
)
from policy_sched.scheduler.scheduling_cycle import (
    Rows as Rows,
    Ties as Ties,
    decide as decide,
    decide_without_reasons as decide_without_reasons,
    diagnosed as diagnosed,
    no_node_fits as no_node_fits,
)
