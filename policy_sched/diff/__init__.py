"""Differences between two policies, two simulations, or a shadow and a scheduler.

Compares the results of `simulate` for two sets of policies, and summarises shadow logs. The texts
of policy files are compared in profiles/format.
"""

from policy_sched.diff.page import diff_page, placement_sections, shadow_page
from policy_sched.diff.placement_diff import (
    PLACED,
    Cause,
    Move,
    PlacementDiff,
    SeedsDiff,
    compare_placements,
    compare_seeds,
)
from policy_sched.diff.policy_diff import NOT_COMPARED, PolicyDiff
from policy_sched.diff.report import (
    CAUSES,
    causes_text,
    mean_text,
    means_of_causes,
    measure_row,
    seeds_text,
    sides,
    worst_first,
)
from policy_sched.diff.shadow import summarize

__all__ = [
    "CAUSES",
    "NOT_COMPARED",
    "PLACED",
    "Cause",
    "Move",
    "PlacementDiff",
    "PolicyDiff",
    "SeedsDiff",
    "causes_text",
    "compare_placements",
    "compare_seeds",
    "diff_page",
    "mean_text",
    "means_of_causes",
    "measure_row",
    "placement_sections",
    "seeds_text",
    "shadow_page",
    "sides",
    "summarize",
    "worst_first",
]
