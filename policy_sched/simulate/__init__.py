"""What-if simulation: manifests or traces in, placements out.

One shot or over virtual time, without an API server.
"""

from policy_sched.simulate.one_shot import (
    MAIN_RESOURCES,
    VirtualClock,
    add_policies,
    allocations,
    explain_after_queue,
    explain_now,
    explain_queued,
    leaving_form,
    node_usages,
    resource_names,
    run_queue,
    turned_away,
    waiting_with,
)
from policy_sched.simulate.origin import (
    DIGITS,
    ORIGIN,
    Contents,
    cluster_facts,
    contents_of,
    origin,
    policy_facts,
    time_text,
)
from policy_sched.simulate.page import policies_section, run_page
from policy_sched.simulate.report import (
    Allocation,
    Application,
    Applied,
    NodeUsage,
    RuleHits,
    Run,
    applied_text,
    policy_document,
    policy_lines,
)
from policy_sched.simulate.timeline import (
    LONGEST,
    Retry,
    Timeline,
    known_span,
    play,
    require_span,
    waits,
)
from policy_sched.simulate.timeline_page import timeline_charts, timeline_page
from policy_sched.simulate.timeline_result import (
    PodTimeline,
    TimelineResult,
    duration_text,
    never_placed,
)
from policy_sched.simulate.traces import generated_nodes, is_trace, load_traces
from policy_sched.simulate.workloads import ExpansionError, expand

__all__ = [
    "DIGITS",
    "LONGEST",
    "MAIN_RESOURCES",
    "ORIGIN",
    "Allocation",
    "Application",
    "Applied",
    "Contents",
    "ExpansionError",
    "NodeUsage",
    "PodTimeline",
    "Retry",
    "RuleHits",
    "Run",
    "Timeline",
    "TimelineResult",
    "VirtualClock",
    "add_policies",
    "allocations",
    "applied_text",
    "cluster_facts",
    "contents_of",
    "duration_text",
    "expand",
    "explain_after_queue",
    "explain_now",
    "explain_queued",
    "generated_nodes",
    "is_trace",
    "known_span",
    "leaving_form",
    "load_traces",
    "never_placed",
    "node_usages",
    "origin",
    "play",
    "policies_section",
    "policy_document",
    "policy_facts",
    "policy_lines",
    "require_span",
    "resource_names",
    "run_page",
    "run_queue",
    "time_text",
    "timeline_charts",
    "timeline_page",
    "turned_away",
    "waiting_with",
    "waits",
]
