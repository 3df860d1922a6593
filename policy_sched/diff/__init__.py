"""Differences between two policies, two simulations, or a shadow and a scheduler.

Compares the results of `simulate` for two sets of policies, and summarises shadow logs. The texts
of policy files are compared in profiles/format.
"""

from policy_sched.diff.page import diff_page, placement_sections, shadow_page
from policy_sched.diff.placement_diff import (
    PLACED,
    PlacementDiff,
    SeedsDiff,
    compare_placements,
    compare_seeds,
)
from policy_sched.diff.policy_diff import PolicyDiff
from policy_sched.diff.shadow import summarize

__all__ = [
    "PLACED",
    "PlacementDiff",
    "PolicyDiff",
    "SeedsDiff",
    "compare_placements",
    "compare_seeds",
    "diff_page",
    "placement_sections",
    "shadow_page",
    "summarize",
]
