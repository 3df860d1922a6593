"""What-if simulation: manifests or traces in, placements out.

One shot or over virtual time, without an API server.
"""

from policy_sched.simulate.one_shot import (
    MAIN_RESOURCES as MAIN_RESOURCES,
    VirtualClock as VirtualClock,
    add_policies as add_policies,
    allocations as allocations,
    enqueue as enqueue,
    explain_after_queue as explain_after_queue,
    explain_now as explain_now,
    explain_queued as explain_queued,
    leaving_form as leaving_form,
    node_usages as node_usages,
    resource_names as resource_names,
    run_queue as run_queue,
    waiting_with as waiting_with,
)
from policy_sched.simulate.page import (
    DIGITS as DIGITS,
    cluster_facts as cluster_facts,
    contents_of as contents_of,
    origin as origin,
    policies_section as policies_section,
    policy_facts as policy_facts,
    run_page as run_page,
    time_text as time_text,
    timeline_charts as timeline_charts,
    timeline_page as timeline_page,
)
from policy_sched.simulate.replayed import (
    RecordedTies as RecordedTies,
    play_traffic as play_traffic,
    replaying as replaying,
)
from policy_sched.simulate.report import (
    Allocation as Allocation,
    Application as Application,
    AppliedPolicy as AppliedPolicy,
    NodeUsage as NodeUsage,
    OneShotRun as OneShotRun,
    RuleHits as RuleHits,
    applied_text as applied_text,
    policy_document as policy_document,
    policy_lines as policy_lines,
)
from policy_sched.simulate.timeline import (
    Retry as Retry,
    Timeline as Timeline,
    known_span as known_span,
    play as play,
    require_span as require_span,
    waits as waits,
)
from policy_sched.simulate.timeline_result import (
    PodTimeline as PodTimeline,
    TimelineResult as TimelineResult,
    WaitingTimes as WaitingTimes,
    bucket_width as bucket_width,
    duration_text as duration_text,
    never_placed as never_placed,
    waiting_over as waiting_over,
)
from policy_sched.simulate.traces import (
    generated_nodes as generated_nodes,
    is_trace as is_trace,
    load_traces as load_traces,
)
from policy_sched.simulate.traffic import (
    StepKind as StepKind,
    Traffic as Traffic,
    at_start as at_start,
    traffic_of as traffic_of,
    uid_of as uid_of,
)
from policy_sched.simulate.workloads import ExpansionError as ExpansionError, expand as expand
